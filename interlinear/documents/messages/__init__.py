"""Messages of programs: placeholders, ICU branches, character references and keys of menus stay, words are texts."""
