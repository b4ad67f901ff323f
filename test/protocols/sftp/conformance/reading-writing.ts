/** READ and WRITE (draft §6.4): at any offset, in any order, many at once. */
import { createHash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { string, types, uint32, uint64 } from '../packet-client.js'
import { all, check, type Section } from './check.js'
import type { Ground } from './ground.js'

const kibi = 1024
/** The maximum length of one READ or WRITE, as `limits@openssh.com` reports it. */
const mostData = 255 * kibi

async function opened(ground: Ground, content: string | Buffer, flags = 'READ'): Promise<Buffer> {
  await ground.file('file', content)
  return ground.open('file', flags)
}

/** Bytes that differ by position. */
function pattern(length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  for (let at = 0; at < length; at++) bytes[at] = (at * 31 + (at >> 8)) & 0xff
  return bytes
}

const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

/** Reads a file by pipelined READs of 64 KiB, and compares the content. */
async function holds(ground: Ground, name: string, bytes: Buffer): Promise<boolean> {
  const handle = await ground.open(name, 'READ')
  const reads = []
  for (let at = 0; at < bytes.length; at += 64 * kibi) reads.push(ground.client.read(handle, at, 64 * kibi))
  const parts = await Promise.all(reads)
  await ground.close(handle)
  return parts.every((part) => typeof part !== 'number') && digest(Buffer.concat(parts)) === digest(bytes)
}

export const reading: Section = {
  title: 'READ (draft 6.4)',
  checks: [
    check('READ from the start', '"01234"', async (ground) => ground.read(await opened(ground, '0123456789'), 0, 5)),
    check('READ in the middle', '"456"', async (ground) => ground.read(await opened(ground, '0123456789'), 4, 3)),
    check('READ over the end gives what is left', '"89"', async (ground) =>
      ground.read(await opened(ground, '0123456789'), 8, 100),
    ),
    check('READ at the end', 'EOF', async (ground) => ground.read(await opened(ground, '0123456789'), 10, 1)),
    check('READ after the end', 'EOF', async (ground) => ground.read(await opened(ground, '0123456789'), 1000, 1)),
    check('READ after 2^53', 'BAD_MESSAGE', async (ground) =>
      ground.read(await opened(ground, '0123456789'), 2n ** 53n + 1n, 10),
    ),
    check('READ at 2^63 - 1', 'BAD_MESSAGE', async (ground) =>
      ground.read(await opened(ground, '0123456789'), 2n ** 63n - 1n, 10),
    ),
    check('READ at an offset that is negative to the server', 'BAD_MESSAGE', async (ground) =>
      ground.read(await opened(ground, '0123456789'), 2n ** 64n - 1n, 10),
    ),
    check('READ of an empty file', 'EOF', async (ground) => ground.read(await opened(ground, ''), 0, 10)),
    check('READ of no bytes', '""', async (ground) => ground.read(await opened(ground, '0123456789'), 3, 0)),
    check('READ of no bytes at the end', '""', async (ground) =>
      ground.read(await opened(ground, '0123456789'), 10, 0),
    ),
    check('READ of 32 KiB', '32768 bytes', async (ground) =>
      ground.read(await opened(ground, Buffer.alloc(300 * kibi)), 0, 32 * kibi),
    ),
    check('READ of the most that the limits tell', '261120 bytes', async (ground) =>
      ground.read(await opened(ground, Buffer.alloc(300 * kibi)), 0, mostData),
    ),
    check('READ of more than the limits tell is cut to them', '261120 bytes, 261120 bytes', async (ground) => {
      const handle = await opened(ground, Buffer.alloc(300 * kibi))
      return all(await ground.read(handle, 0, 256 * kibi), ground.read(handle, 0, 0xffffffff))
    }),
    check('READs backwards through a file', '"9", "8", "7", "0"', async (ground) => {
      const handle = await opened(ground, '0123456789')
      return all(...[9, 8, 7, 0].map((at) => ground.read(handle, at, 1)))
    }),
    check('READs that are asked for at once are answered in their order', 'true', async (ground) => {
      const handle = await opened(ground, pattern(400 * kibi))
      const order: number[] = []
      const asked = Array.from({ length: 64 }, async (_, at) => {
        await ground.read(handle, (at * 7919) % (300 * kibi), at % 3 === 0 ? mostData : 100)
        order.push(at)
      })
      await Promise.all(asked)
      return String(order.every((at, index) => at === index))
    }),
    check('READs of many handles at once', 'true', async (ground) => {
      const bytes = pattern(200 * kibi)
      await ground.file('file', bytes)
      const told = await Promise.all(Array.from({ length: 10 }, () => holds(ground, 'file', bytes)))
      return all(told.every(Boolean))
    }),
    check('READ of what another session has removed', 'OK, "abc"', async (ground) => {
      const handle = await opened(ground, 'abc')
      return all(await (await ground.another()).remove('file'), ground.read(handle, 0, 3))
    }),
    check('READ of what another session has replaced', 'OK, "abc"', async (ground) => {
      const handle = await opened(ground, 'abc')
      const other = await ground.another()
      await other.file('new', 'xyz')
      return all(await other.posixRename('new', 'file'), ground.read(handle, 0, 3))
    }),
    check('READ sees what another session appends', '"abcdef"', async (ground) => {
      const handle = await opened(ground, 'abc')
      const other = await ground.another()
      const appended = await other.open('file', 'WRITE APPEND')
      await other.write(appended, 0, 'def')
      await other.close(appended)
      return ground.read(handle, 0, 100)
    }),
  ],
}

export const writing: Section = {
  title: 'WRITE (draft 6.4)',
  checks: [
    check('WRITE into a new file', 'OK, OK, "hello"', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      return all(await ground.write(handle, 0, 'hello'), await ground.close(handle), ground.content('file'))
    }),
    check('WRITE over bytes that stand there', '"012abc6789"', async (ground) => {
      const handle = await opened(ground, '0123456789', 'WRITE')
      await ground.write(handle, 3, 'abc')
      await ground.close(handle)
      return ground.content('file')
    }),
    check('WRITE over the end makes the file longer', '"01abc"', async (ground) => {
      const handle = await opened(ground, '0123', 'WRITE')
      await ground.write(handle, 2, 'abc')
      await ground.close(handle)
      return ground.content('file')
    }),
    check('WRITE after the end leaves zeros', '"01\\u0000\\u0000x"', async (ground) => {
      const handle = await opened(ground, '01', 'WRITE')
      await ground.write(handle, 4, 'x')
      await ground.close(handle)
      return ground.content('file')
    }),
    check('WRITE after the end of a new file leaves zeros', '"\\u0000\\u0000x"', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      await ground.write(handle, 2, 'x')
      await ground.close(handle)
      return ground.content('file')
    }),
    check('WRITE of no bytes', 'OK, "01"', async (ground) => {
      const handle = await opened(ground, '01', 'WRITE')
      const told = await ground.write(handle, 1, '')
      await ground.close(handle)
      return all(told, ground.content('file'))
    }),
    check('WRITE of no bytes after the end makes nothing longer', 'OK, "01"', async (ground) => {
      const handle = await opened(ground, '01', 'WRITE')
      const told = await ground.write(handle, 100, '')
      await ground.close(handle)
      return all(told, ground.content('file'))
    }),
    check('WRITE of no bytes at all makes an empty file', 'OK, ""', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      return all(await ground.close(handle), ground.content('file'))
    }),
    check('WRITE of the most that the limits tell', 'OK, true', async (ground) => {
      const bytes = pattern(mostData)
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      const told = await ground.write(handle, 0, bytes)
      await ground.close(handle)
      return all(told, holds(ground, 'file', bytes))
    }),
    check('WRITEs in order, all sent at once', 'OK, true', async (ground) => {
      const bytes = pattern(900 * kibi)
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      const writes = []
      for (let at = 0; at < bytes.length; at += 32 * kibi)
        writes.push(ground.write(handle, at, bytes.subarray(at, at + 32 * kibi)))
      const told = [...new Set(await Promise.all(writes))].join()
      await ground.close(handle)
      return all(told, holds(ground, 'file', bytes))
    }),
    check('WRITEs from the end to the start', 'OK, true', async (ground) => {
      const bytes = pattern(400 * kibi)
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      const writes = []
      for (let at = bytes.length - 20 * kibi; at >= 0; at -= 20 * kibi)
        writes.push(ground.write(handle, at, bytes.subarray(at, at + 20 * kibi)))
      const told = [...new Set(await Promise.all(writes))].join()
      return all(told, (await ground.close(handle)) === 'OK' && (await holds(ground, 'file', bytes)))
    }),
    check('WRITEs in no order, one after the other', 'OK, true', async (ground) => {
      const bytes = pattern(320 * kibi)
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      const told = new Set<string>()
      for (let part = 0; part < 32; part++) {
        const at = ((part * 13) % 32) * 10 * kibi
        told.add(await ground.write(handle, at, bytes.subarray(at, at + 10 * kibi)))
        await turn()
      }
      return all([...told].join(), (await ground.close(handle)) === 'OK' && (await holds(ground, 'file', bytes)))
    }),
    check('WRITEs that overlap count in their order', '"aaabbbccc"', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      await Promise.all([
        ground.write(handle, 0, 'aaaaaa'),
        ground.write(handle, 3, 'bbbbbb'),
        ground.write(handle, 6, 'ccc'),
      ])
      await ground.close(handle)
      return ground.content('file')
    }),
    check('WRITE twice at one place counts the second time', '"two"', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      await ground.write(handle, 0, 'one')
      await ground.write(handle, 0, 'two')
      await ground.close(handle)
      return ground.content('file')
    }),
    check('WRITE far after the end makes a sparse file', 'OK, OK, 1099511627777', async (ground) => {
      const handle = await ground.open('file', 'READ WRITE CREAT TRUNC')
      const told = await ground.write(handle, 2 ** 40, 'x')
      const found = await ground.attributesOfHandle(handle)
      // Truncated again, so that no backend has to store it.
      const cut = await ground.fsetstat(handle, Buffer.concat([uint32(1), uint64(0)]))
      return all(told, cut, typeof found === 'string' ? found : found.size)
    }),
    check('WRITE after 2^63', 'BAD_MESSAGE', async (ground) =>
      ground.write(await ground.open('file', 'WRITE CREAT TRUNC'), 2n ** 63n + 5n, 'x'),
    ),
    check('APPEND writes at the end whatever the offset', '"one two three"', async (ground) => {
      const handle = await opened(ground, 'one ', 'WRITE APPEND')
      await ground.write(handle, 0, 'two ')
      await ground.write(handle, 1_000_000, 'three')
      await ground.close(handle)
      return ground.content('file')
    }),
    check('APPEND and CREAT of a new file', '"abcd"', async (ground) => {
      const handle = await ground.open('file', 'WRITE APPEND CREAT')
      await ground.write(handle, 0, 'ab')
      await ground.write(handle, 0, 'cd')
      await ground.close(handle)
      return ground.content('file')
    }),
    check('APPEND with TRUNC begins anew', '"abcd"', async (ground) => {
      const handle = await opened(ground, 'old bytes', 'WRITE APPEND TRUNC')
      await ground.write(handle, 0, 'ab')
      await ground.write(handle, 0, 'cd')
      await ground.close(handle)
      return ground.content('file')
    }),
    check('TRUNC of a file that another handle is writing', '"new"', async (ground) => {
      const one = await opened(ground, 'old bytes', 'WRITE TRUNC')
      await ground.write(one, 0, 'given up')
      const two = await ground.open('file', 'WRITE TRUNC')
      await ground.write(two, 0, 'new')
      await ground.close(two)
      await ground.close(one)
      return ground.content('file')
    }),
    check('APPEND reads at any offset', '"old+", "+"', async (ground) => {
      const handle = await opened(ground, 'old', 'READ WRITE APPEND')
      await ground.write(handle, 0, '+')
      return all(ground.read(handle, 0, 10), ground.read(handle, 3, 10))
    }),
    check('APPEND by two sessions loses nothing', '"a1a2b1b2"', async (ground) => {
      const other = await ground.another()
      const one = await opened(ground, '', 'WRITE APPEND')
      const two = await other.open('file', 'WRITE APPEND')
      await ground.write(one, 0, 'a1')
      await ground.write(one, 0, 'a2')
      await ground.close(one)
      await other.write(two, 0, 'b1')
      await other.write(two, 0, 'b2')
      await other.close(two)
      return ground.content('file')
    }),
    check('APPEND by two sessions in turn loses nothing', '"abcd"', async (ground) => {
      const other = await ground.another()
      const one = await opened(ground, '', 'WRITE APPEND')
      const two = await other.open('file', 'WRITE APPEND')
      await ground.write(one, 0, 'a')
      await other.write(two, 0, 'b')
      await ground.write(one, 0, 'c')
      await other.write(two, 0, 'd')
      await ground.close(one)
      await other.close(two)
      return ground.content('file')
    }),
    check('READ behind WRITE sees what it wrote', 'OK, "new"', async (ground) => {
      const handle = await opened(ground, 'old', 'READ WRITE')
      const written = ground.write(handle, 0, 'new')
      return all(written, ground.read(handle, 0, 10))
    }),
    check('READ ahead of WRITE sees what stood there', '"old", OK', async (ground) => {
      const handle = await opened(ground, 'old', 'READ WRITE')
      const seen = ground.read(handle, 0, 10)
      return all(seen, ground.write(handle, 0, 'new'))
    }),
    check('WRITE by one handle is read by another of the session', '"new"', async (ground) => {
      const one = await opened(ground, 'old', 'WRITE')
      const two = await ground.open('file', 'READ')
      await ground.write(one, 0, 'new')
      return ground.read(two, 0, 10)
    }),
    check('WRITE in place is read by another session', '"new"', async (ground) => {
      const one = await opened(ground, 'old', 'WRITE')
      const other = await ground.another()
      const two = await other.open('file', 'READ')
      await ground.write(one, 0, 'new')
      return other.read(two, 0, 10)
    }),
    check('WRITE into a new file is seen by another session before CLOSE', '"new", 3', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      await ground.write(handle, 0, 'new')
      const other = await ground.another()
      return all(other.content('file'), other.size('file'))
    }),
    check('WRITE into an emptied file is seen by another session before CLOSE', '"new"', async (ground) => {
      const handle = await opened(ground, 'old bytes', 'WRITE TRUNC')
      await ground.write(handle, 0, 'new')
      return (await ground.another()).content('file')
    }),
    check('WRITE to what another session has removed', 'OK, OK, OK, NO_SUCH_FILE', async (ground) => {
      const handle = await opened(ground, 'old', 'WRITE')
      const gone = await (await ground.another()).remove('file')
      return all(gone, await ground.write(handle, 0, 'new'), await ground.close(handle), ground.content('file'))
    }),
    check('WRITE with bytes behind the data it announces', 'OK, "ab"', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      const told = await ground.ask(types.write, string(handle), uint64(0), string('ab'), Buffer.from('behind'))
      await ground.close(handle)
      return all(told, ground.content('file'))
    }),
  ],
}
