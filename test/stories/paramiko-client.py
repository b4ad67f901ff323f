"""Transfers files with paramiko. Arguments: port, password and a large file."""

import hashlib
import io
import stat
import sys

import paramiko

port, password, large = int(sys.argv[1]), sys.argv[2], sys.argv[3]
transport = paramiko.Transport(("127.0.0.1", port))
transport.connect(username="admin", password=password)
sftp = paramiko.SFTPClient.from_transport(transport)

with open(large, "rb") as file:
    content = file.read()

# put() confirms the size by STAT; get() asks for the whole file at once.
sftp.put(large, "/large")
sftp.get("/large", large + ".back")
with open(large + ".back", "rb") as file:
    assert file.read() == content, "get"

with sftp.open("/large", "rb") as file:
    file.prefetch()
    digest = hashlib.sha256()
    while block := file.read(100_000):
        digest.update(block)
    assert digest.digest() == hashlib.sha256(content).digest(), "prefetch"
    pieces = [(1_000_000, 50_000), (0, 10), (len(content) - 7, 7), (5, 0)]
    assert list(file.readv(pieces)) == [content[at : at + size] for at, size in pieces], "readv"

sftp.putfo(io.BytesIO(b"from memory"), "/small")
into = io.BytesIO()
sftp.getfo("/small", into)
assert into.getvalue() == b"from memory", "getfo"

with sftp.open("/small", "a") as file:
    file.write(", and more")
with sftp.open("/small", "r+") as file:
    file.seek(5)
    file.write("MEMORY")
with sftp.open("/small") as file:
    assert file.read() == b"from MEMORY, and more", "patched"
with sftp.open("/pipelined", "wb") as file:
    file.set_pipelined(True)
    for number in range(500):
        file.write(b"%08d" % number)
assert sftp.stat("/pipelined").st_size == 4000, "pipelined"
try:
    sftp.open("/small", "x")
    raise AssertionError("x must not open what is there")
except IOError:
    pass

sftp.mkdir("/many", 0o755)
sftp.chdir("/many")
for number in range(300):
    with sftp.open("file %03d é" % number, "w") as file:
        file.write(str(number))
names = sorted(entry.filename for entry in sftp.listdir_iter("/many", read_aheads=20))
assert names == ["file %03d é" % number for number in range(300)], names[:5]
assert all(entry.st_size == len(str(int(entry.filename[5:8]))) for entry in sftp.listdir_attr("."))
for name in names:
    sftp.remove(name)
sftp.chdir(None)
sftp.rmdir("/many")

sftp.truncate("/small", 4)
sftp.utime("/small", (1_500_000_000, 1_500_000_001))
sftp.chmod("/small", 0o640)
sftp.chown("/small", 1000, 1000)
found = sftp.stat("/small")
assert (found.st_size, int(found.st_mtime)) == (4, 1_500_000_001), found
assert stat.S_ISREG(found.st_mode), found
try:
    sftp.rename("/pipelined", "/small")
    raise AssertionError("RENAME must not replace")
except IOError:
    pass
sftp.posix_rename("/pipelined", "/small")
assert sftp.stat("/small").st_size == 4000
try:
    sftp.stat("/nowhere")
    raise AssertionError("what is not there must be told")
except FileNotFoundError:
    pass
assert sftp.normalize(".") == "/"
transport.close()
print("all well")
