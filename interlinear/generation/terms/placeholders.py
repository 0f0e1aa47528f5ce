r"""Addresses, placeholders of programs and templates, and tags: one list for texts, messages and documents.

A family is what one kind of program writes. Signs of ordinary text are not placeholders: the `% d` of "50 % der", the
`%i` of "100%ige", `:-)`, `12:30`, `<Der Hund schläft.>`. Every pattern takes time linear in the text: the length of an
unclosed match is bounded.
"""

from interlinear.text.words import UNSPACED_RANGES

# An address, without the marks of the sentence that it stands in, and with brackets only in pairs; `[/` is of BBCode.
# It is unambiguous, and only the marks at its end are matched twice, so that the time is linear.
IN_ADDRESS = r"[^\s<>()\[\]{}\"“”„‚‘«»‹›`|\\。，、！？：；（）「」『』【】《》]"
ADDRESS = (
    r"(?:(?<![A-Za-z0-9_])(?:https?|s?ftps?|wss?|file|git|ssh)://|(?<![\w.@])www\.)"
    rf"(?:{IN_ADDRESS}|\({IN_ADDRESS}*\)|\[(?!/){IN_ADDRESS}*\]|\{{{{?{IN_ADDRESS}*\}}\}}?)+(?<![.,;:!?…'’*~])"
    r"|(?:\bmailto:)?(?<![\w.+-])[\w.+-]{1,64}@\w[\w-]{0,62}(?:\.\w[\w-]{0,62})+"
)

LETTER = rf"[^\W\d_{UNSPACED_RANGES}]"  # of a script with spaces: "%d个" is a placeholder and a word
NO_LETTER = rf"(?!{LETTER})"
NO_PERCENTAGE = r"(?<![\w%])(?<!\d[ \u00a0\u202f])"  # before a percent sign

CONVERSION = r"[diouxXeEfFgGaAcCsSpn@]"
LENGTH = r"(?:hh|h|ll|l|q|j|z|t|L|I64|I32)?"
WIDTH = r"(?:\*(?:\d{1,2}\$)?|\d{1,3})?(?:\.(?:\*(?:\d{1,2}\$)?|\d{0,3}))?"
FLAGS = r"[-+#0']{0,4}"
# As C and Python read a format, wherever it stands, for messages that are known to be one.
STRICT_PRINTF = (
    rf"%(?:\d{{1,2}}\$)?(?:\([^()\n]{{1,100}}\))?[-+ #0'I]{{0,5}}{WIDTH}{LENGTH}(?:{CONVERSION}|m|<PRI\w{{1,10}}>)|%%"
)
FORMAT_KEYWORDS = "number|date|time|spellout|ordinal|duration|list|choice"

FAMILIES = {
    # {{ x }}, {{{x}}}, {% x %}, {# x #}, {!! x !!}: Mustache, Vue, Angular, Jinja, Liquid, Twig, Go, Blade
    "templates": r"\{\{\{.{0,300}?\}\}\}|\{\{.{0,300}?\}\}|\{%.{0,300}?%\}|\{#.{0,300}?#\}|\{!!.{0,300}?!!\}",
    # <%= x %>, <?php x ?>, <!-- x -->: ERB, JSP, PHP
    "instructions": r"<%.{0,300}?%>|<\?.{0,300}?\?>|<!--.{0,300}?-->|<!\[CDATA\[|\]\]>",
    # $t(key), @:key, @.lower:key: i18next and Vue
    "links": r"\$t\([^()\n]{1,200}\)|(?<![\w@.])@(?:\.\w{1,20})?:(?:\([\w.-]{1,100}\)|\w(?:[\w.-]{0,98}\w)?)",
    # ${x}, #{x}, %{x}, @{x}, $(x): Java, JavaScript, Ruby, Thymeleaf, MSBuild
    "sigils": r"[$#%@]\{[^{}\n]{1,200}(?:\{[^{}\n]{0,100}\}[^{}\n]{0,100}){0,3}\}|\$\([\w.-]{1,100}\)",
    # {#if x}, {/if}, {:else}, {@html x}, {$name|upper}, {!Label.x}: Svelte, Smarty, Angular, Salesforce
    "statements": r"\{[#/:@$^&>!][^{}\s][^{}\n]{0,200}\}",
    # {name}, {0}, {}, {user.name}, {x[0]}, {x!r:>{width}}, {0,-10:N2}, {n, number, percent}, {a + b}, {f(x)}
    "braces": r"\{(?! \}) ?(?:[\w.$-]{1,100}(?:\[[^\][{}\n]{0,40}\]|\(\)){0,4})?"
    r"(?:(?:![rsa])?(?:,-?\d{1,3})?(?::(?=[^\s{}]|\{)[^{}\n]{0,60}(?:\{[\w.]{0,40}\}[^{}\n]{0,40}){0,4})?"
    rf"| ?, ?(?:{FORMAT_KEYWORDS})\b[^{{}}\n]{{0,200}}"
    r"| ?\| ?[a-z][\w:' .-]{0,100}| ?(?:[+*?=]|&&|\|\|)[^{}\n]{1,100}|\([^{}\n]{0,100}\)) ?\}",
    # %(name)s, %1$s, %<name>d, %-5<PRIu64>: with a name or a number any letter may follow
    "named printf": rf"%(?:\d{{1,2}}\$)?(?:\([\w.-]{{1,100}}\)|(?<=\$))#?"
    rf"(?:@\w{{1,60}}@|{FLAGS}{WIDTH}{LENGTH}{CONVERSION})"
    rf"|%{FLAGS}\d{{0,3}}<PRI\w{{1,10}}>|%{FLAGS}\d{{0,3}}<\w{{1,60}}>(?:{FLAGS}{WIDTH}{CONVERSION})?|%#@\w{{1,60}}@",
    # %name%, %PATH%: Symfony, Windows
    "percent signs around": r"(?<![\w%])%[A-Za-z_](?:[\w.-]{2,60}%(?!\w)|[\w.-]?%(?![\w%]))",
    # %s, %5.2f, %ld, %*d, %'d, % d; %dx%d, %dpx, %ds: C, Objective-C, PHP
    "printf": rf"%{FLAGS}{WIDTH}{LENGTH}{CONVERSION}{NO_LETTER}|%%"
    rf"|{NO_PERCENTAGE}%[dsuf@](?=[A-Za-zµ]{{1,3}}(?:%|(?!\w)))"
    rf"|{NO_PERCENTAGE}% [dfsu]{NO_LETTER}",
    # %1, %L1, %n, %1%, %|1$d|: Qt, KDE, Boost
    "numbered": r"%\d{1,2}%(?!\w)|%\|[^|\s]{1,20}\||%L[1-9n]\d?|(?<!\d)%[1-9](?!\d|[.,]\d)",
    # $NAME$, $name, $HOME: Chrome, PHP, Python, shells; not "$US"
    "dollars": r"(?<![\w$])\$(?:[A-Za-z_]\w{0,60}\$|[a-z_]\w{1,60}|[A-Z]\w{0,60}_\w{1,60}|[A-Z]{4,60}\b)",
    # :name, :smile: (Laravel, Slack), not ":d"; @name, %name (Drupal). Not "12:30", "Note: a", "std::x", "Chef:innen"
    "words": r"(?<![^\s(\"'„“‚«\[>])(?::[a-z][a-z0-9]+(?:[_+-][a-z0-9]+){0,5}:?(?![\w:])"
    rf"|@[A-Za-z_][\w-]{{0,60}}(?![\w@]))|{NO_PERCENTAGE}%[a-z][a-z_]{{2,40}}(?!\w)",
    # <@123>, <#123>, <:name:123>, <t:123:R>, <!here>, <@U1|name>: Discord, Slack
    "mentions": r"<(?:[@#!][^<>\n]{1,100}|a?:\w{1,40}:\d{1,25}|t:\d{1,20}(?::\w)?|/\w[\w -]{0,60}:\d{1,25})>",
    # @user, @user@host, #tag, :smile: of Mastodon, Discourse and others
    "social": r"(?<![\w@/.])@[^\W_](?:[\w.-]*\w)?(?:@[\w-]+(?:\.[\w-]+)+)?|(?<![\w&/#])#(?=\d*[^\W\d])\w+#?"
    r"|(?<![\w:]):(?=[\d_+-]{0,40}[A-Za-z])[\w+-]{1,40}:(?!\w)",
    # &brandName;: an entity of a program, and no character
    "entities": r"(?<!\w)&[A-Za-z][\w.-]{1,60};",
    # *|NAME|*, [% x %], __NAME__, {'@'}: Mailchimp, Template Toolkit, i18next, a literal of Vue I18n
    "others": r"\*\|[\w:.]{1,60}\|\*|\[%.{0,300}?%\]|(?<!\w)__[A-Z][A-Z0-9_]{0,60}?__(?!\w)|\{'[^'\n]{1,20}'\}",
    # File(&F): the key of a menu in East Asian languages
    "keys": r"\([&_~][A-Za-z0-9]\)",
}
# The first character is looked at before any family is tried, since a text has few of them.
PLACEHOLDER = rf"(?=[%{{$#@:<&(*\[_\]])(?:{'|'.join(FAMILIES.values())})"

# A name alone, or with attributes that have values: "<Der Hund schläft.>" is a text. <0> is of react-i18next.
BOOLEAN = (
    "allowfullscreen|async|autofocus|autoplay|checked|controls|default|defer|disabled|hidden|inert|ismap|itemscope|loop|"
    "multiple|muted|nomodule|noshade|novalidate|nowrap|open|readonly|required|reversed|selected"
)
ATTRIBUTE = (
    r"\s+(?:[\w:.@*#()\[\]-]{1,60}\s*=\s*(?:\"[^\"\n]{0,2000}\"|'[^'\n]{0,2000}'|[^\s\"'<>=`]{1,500})"
    rf"|(?:{BOOLEAN})(?![\w=-]))"
)
TAG = (
    rf"</?(?:[A-Za-z][\w:.-]{{0,60}}(?:{ATTRIBUTE}){{0,40}}+|\d{{1,3}})\s*/?>"
    r"|<(?:v|lang)(?:\.[\w.-]{1,60})?\s[^<>\n]{1,100}>"
)
