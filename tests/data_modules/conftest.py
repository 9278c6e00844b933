from pathlib import Path

import pytest

from headscope.errors import InputError


def written_and_read(file, reader):
    """Writes text to a file and reads it."""

    def write_and_read(text):
        file.write_bytes(text.encode())
        return reader(file)

    return write_and_read


def message_about(read, name):
    """The message of the InputError that a content gives, from the name of its file on."""

    def read_in_vain(text):
        with pytest.raises(InputError) as caught:
            read(text)
        folder, _, rest = str(caught.value).partition(name)
        assert Path(folder).is_dir()
        assert rest.endswith(".")
        return rest

    return read_in_vain
