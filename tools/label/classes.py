"""What a person is told about the five classes (Kovaleva, section 4.1)."""

DEFINITIONS = {
    "vertical": "Columns: nearly all tokens attend to the same few, mostly [CLS], [SEP] or punctuation.",
    "diagonal": "A diagonal line: tokens attend to the previous, the same or the next token.",
    "vertical_diagonal": "Both at once: columns and a diagonal line.",
    "block": "Squares: in a pair of sentences, tokens attend within their own sentence.",
    "heterogeneous": "None of these: what is bright depends on the input.",
}
