"""Built-in sentences of several lengths for load tests."""

ENGLISH = (
    "A dog runs.",
    "Two children are playing.",
    "A woman in a red coat waits for the bus.",
    "An old man is reading a newspaper on a bench in the park.",
    "Three friends are sitting around a small table and drinking coffee.",
    "A boy in a blue shirt jumps over a puddle while his sister looks on and laughs.",
    "Several people stand in front of a market stall, where a young woman is selling fruit and flowers.",
    "A man with a grey beard is painting the fence of his garden, and two cats are sleeping in the grass behind him.",
    "Many visitors have come to the square this morning, because musicians from all over the land are playing there, "
    "and the children dance around the fountain in the middle.",
    "While the rain falls on the roofs of the town, a few people run across the street with newspapers on their heads, "
    "others wait under the trees, and a girl with a yellow umbrella walks slowly past the shops as if nothing had "
    "happened at all.",
)
GERMAN = (
    "Ein Hund läuft.",
    "Zwei Kinder spielen.",
    "Eine Frau in einem roten Mantel wartet auf den Bus.",
    "Ein alter Mann liest auf einer Bank im Park eine Zeitung.",
    "Drei Freunde sitzen um einen kleinen Tisch und trinken Kaffee.",
    "Ein Junge in einem blauen Hemd springt über eine Pfütze, während seine Schwester zusieht und lacht.",
    "Mehrere Leute stehen vor einem Marktstand, an dem eine junge Frau Obst und Blumen verkauft.",
    "Ein Mann mit grauem Bart streicht den Zaun seines Gartens, und hinter ihm schlafen zwei Katzen im Gras.",
    "Viele Besucher sind heute Morgen auf den Platz gekommen, weil dort Musiker aus dem ganzen Land spielen, und die "
    "Kinder tanzen um den Brunnen in der Mitte.",
    "Während der Regen auf die Dächer der Stadt fällt, laufen einige Leute mit Zeitungen über dem Kopf über den Markt, "
    "andere warten unter den Bäumen, und ein Mädchen mit einem gelben Regenschirm geht langsam an allem vorbei, als "
    "wäre gar nichts geschehen.",
)
TEXTS_BY_LANGUAGE = {"en": ENGLISH, "de": GERMAN}
