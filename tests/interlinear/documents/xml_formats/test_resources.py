"""Android's strings and .NET's resources: strings are translated, with their escapes, and nothing else changes."""

from tests.interlinear.documents.translations import in_capitals, same
from tests.interlinear.documents.translations_of_files import texts, translated

ANDROID = r"""<?xml version="1.0" encoding="utf-8"?>
<!-- Kommentar -->
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <string name="a">Ein Hund ist\'s &amp; da</string>
    <string name="b" translatable="false">Nicht das</string>
    <string name="c">Hallo <xliff:g id="n" example="Eva">%1$s</xliff:g>, <b>er\'s</b> da</string>
    <plurals name="d"><item quantity="one">%d Hund da</item><item quantity="other">%d Hunde da</item></plurals>
    <string-array name="e"><item>rot</item><item>@string/a</item></string-array>
    <string name="f"><![CDATA[Ein <b>Hund</b> da]]></string>
    <string name="g">"Er sagt\nnoch 'ja'  "</string>
    <color name="h">#ff0000</color>
    <string name="i">\@Hund da</string>
</resources>
"""
RESX = """<?xml version="1.0" encoding="utf-8"?>
<root>
  <resheader name="version"><value>2.0 da</value></resheader>
  <data name="a" xml:space="preserve"><value>Ein {0} &lt;b&gt;Hund&lt;/b&gt; da &amp; hier</value>
    <comment>Kommentar</comment></data>
  <data name="b" type="System.Drawing.Point, System.Drawing"><value>1, 2</value></data>
  <data name="c" mimetype="application/x"><value>AAEAAAD</value></data>
  <data name="&gt;&gt;d.Name" xml:space="preserve"><value>label da</value></data>
</root>
"""


def test_strings_of_android():
    assert texts(ANDROID, "a.xml") == [
        "Ein Hund ist's & da", "Hallo, er's da", "Hund da", "Hunde da", "rot", "Ein Hund da",
        "Er sagt\nnoch 'ja'", "da",
    ]  # fmt: skip
    assert translated(ANDROID, "a.xml", same).decode() == ANDROID
    written = translated(ANDROID, "a.xml", in_capitals).decode()
    for string in (
        r"<string name=\"a\">EIN HUND IST\'S &amp; DA</string>".replace('\\"', '"'),
        r'<xliff:g id="n" example="Eva">%1$s</xliff:g>, <b>ER\'S</b> DA</string>',
        '<item quantity="one">%d HUND DA</item><item quantity="other">%d HUNDE DA</item>',
        "<item>ROT</item><item>@string/a</item>",
        "<![CDATA[EIN <b>HUND</b> DA]]>",
        r""">"ER SAGT\nNOCH 'JA'""",
        r">\@Hund DA<",
    ):
        assert string in written


def test_strings_of_dot_net():
    assert [" ".join(text.split()) for text in texts(RESX, "a.resx")] == ["Ein Hund da & hier"]
    assert translated(RESX, "a.resx", same).decode() == RESX
    written = translated(RESX, "a.resx", in_capitals).decode()
    assert "<value>EIN {0} &lt;b&gt;HUND&lt;/b&gt; DA &amp; HIER</value>" in written


def test_the_key_of_a_menu_in_resx():
    text = '<root><data name="a" xml:space="preserve"><value>{}Datei öffnen</value></data></root>'
    for mark in ("&amp;", "_"):
        assert texts(text.format(mark), "a.resx") == ["Datei öffnen"]
        assert translated(text.format(mark), "a.resx", same).decode() == text.format(mark)
