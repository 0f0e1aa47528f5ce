"""The meaning of HTML's elements and attributes for translation (HTML Living Standard, 3.2.6.4 and 15.3)."""

from collections.abc import Collection, Mapping

from interlinear.documents.events import AttributeText, Role

BLOCKS = frozenset(
    "address article aside blockquote body caption center col colgroup dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav "
    "noscript ol optgroup option p search section summary table tbody td template tfoot th thead title tr "
    "ul".split()
)
UNTRANSLATED_TAGS = frozenset(("notranslate", "x"))  # as users of DeepL write them
PROTECTED = UNTRANSLATED_TAGS | frozenset("code kbd samp tt var".split())
SEPARATE = frozenset("button select".split())
# Content that is no text, or not for readers; a text field's content stands for its user's input.
VERBATIM = frozenset(
    "audio canvas embed iframe math noembed noframes object rp rt script style svg textarea video".split()
)
VERBATIM_BLOCKS = frozenset("listing plaintext pre xmp".split())
DROPS_LINE_FEED = frozenset("listing pre textarea".split())  # after its start tag, as no part of its text
RAW_TEXT = frozenset("iframe noembed noframes plaintext script style textarea xmp".split())  # no tags in their text
VOID = frozenset("area base br col embed frame hr img input link meta param source track wbr".split())
INLINE = frozenset(
    "a abbr acronym b bdi bdo big blink cite data datalist del dfn em font i ins label map mark marquee meter nobr "
    "output picture progress q rb rtc ruby s slot small span strike strong sub sup time u".split()
)
KNOWN = BLOCKS | PROTECTED - UNTRANSLATED_TAGS | SEPARATE | VERBATIM | VERBATIM_BLOCKS | VOID | INLINE
UNSEEN = frozenset("area base link meta noembed noframes param rp rt script source style track wbr".split())

ATTRIBUTES = frozenset("title alt placeholder aria-label aria-description".split())
BUTTONS = frozenset("submit button reset".split())  # types of <input> whose value is displayed, and not edited
DESCRIPTIONS = frozenset(
    "description og:title og:description og:image:alt twitter:title twitter:description twitter:image:alt".split()
)  # names of <meta> whose content is for readers
# The last three: of Mastodon, Discourse and editors.
UNTRANSLATED_CLASSES = frozenset("notranslate skiptranslate mention hashtag hashtag-cooked".split())


def role_of(name: str) -> Role:
    """The role of an HTML element; an unknown element is inline, as in a browser."""
    if name in BLOCKS:
        return Role.BLOCK
    if name == "br":
        return Role.LINE_BREAK
    if name in PROTECTED:
        return Role.PROTECTED
    if name in SEPARATE:
        return Role.SEPARATE
    if name in VERBATIM_BLOCKS:
        return Role.VERBATIM_BLOCK
    return Role.VERBATIM if name in VERBATIM else Role.INLINE


def says_translate(attributes: Mapping[str, str]) -> bool | None:
    """Whether `translate` or `class` declares an element's content translatable or not; None if neither does."""
    value = attributes.get("translate")
    if value is not None and value.lower() in ("", "yes", "no"):
        return value.lower() != "no"
    return False if UNTRANSLATED_CLASSES & set(attributes.get("class", "").split()) else None


def translated_attributes(name: str, attributes: Mapping[str, str]) -> list[str]:
    """The attributes of an element whose values are texts for readers."""
    names = [attribute for attribute in attributes if attribute in ATTRIBUTES]
    if name == "input" and attributes.get("type", "").lower() in BUTTONS and "value" in attributes:
        names.append("value")
    if name == "meta" and attributes.get("name", attributes.get("property", "")).lower() in DESCRIPTIONS:
        names += [attribute for attribute in ("content",) if attribute in attributes]
    if name in ("option", "optgroup", "track") and "label" in attributes:
        names.append("label")
    return names


def escape(text: str) -> str:
    """A text as HTML: &, < and > become character references."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """A text as a value in double quotes."""
    return escape(text).replace('"', "&quot;")


def write_tag(name: str, attributes: Mapping[str, str], translated: Collection[str]) -> tuple[str, list[AttributeText]]:
    """A start tag, and the places of its attributes whose names are in `translated`."""
    markup, places = f"<{name}", []
    for attribute, value in attributes.items():
        start = len(markup) + 1
        markup += f' {attribute}="{escape_attribute(value)}"'
        if attribute in translated:
            places.append(AttributeText(attribute, start, len(markup), value))
    return markup + ">", places
