/** STAT, LSTAT, FSTAT (draft §6.8), SETSTAT and FSETSTAT (draft §6.9), with attributes of every form (draft §5). */
import { names, string, types, uint32 } from '../packet-client.js'
import { all, check, distinct, type Section } from './check.js'
import { attributes, type Ground } from './ground.js'

const stats = (ground: Ground, name: string) => all(ground.kind(name, names.stat), ground.kind(name, types.lstat))

async function file(ground: Ground, content = '0123456789'): Promise<void> {
  await ground.file('file', content)
}

const oldTimes = attributes({ times: 1_000_000_000 })

/** When a file, or that of a handle, was changed: in seconds, or `now` for the last minute. */
async function timeOf(ground: Ground, which: string | Buffer): Promise<string> {
  const found = await (typeof which === 'string' ? ground.attributes(which) : ground.attributesOfHandle(which))
  if (typeof found === 'string') return found
  return Math.abs(found.modified - Date.now() / 1000) < 60 ? 'now' : String(found.modified)
}

/** All sixteen combinations of the attribute flags of version 3. */
function everySet(): Buffer[] {
  return Array.from({ length: 16 }, (_, bits) =>
    attributes({
      ...(bits & 1 && { size: 4 }),
      ...(bits & 2 && { owner: process.getuid?.() ?? 0 }),
      ...(bits & 4 && { mode: 0o640 }),
      ...(bits & 8 && { times: 1_000_000_000 }),
    }),
  )
}

export const attributesSection: Section = {
  title: 'STAT and SETSTAT (draft 5, 6.8, 6.9)',
  checks: [
    check('STAT of a file', 'file, file', async (ground) => {
      await file(ground)
      return stats(ground, 'file')
    }),
    check('STAT of a folder', 'folder, folder', async (ground) => {
      await ground.folders('folder')
      return stats(ground, 'folder')
    }),
    check('STAT of a missing name', 'NO_SUCH_FILE, NO_SUCH_FILE', (ground) => stats(ground, 'none')),
    check('STAT below a missing folder', 'NO_SUCH_FILE, NO_SUCH_FILE', (ground) => stats(ground, 'none/file')),
    check('STAT below a file', 'NO_SUCH_FILE, NO_SUCH_FILE', async (ground) => {
      await file(ground)
      return stats(ground, 'file/below')
    }),
    check('STAT of an empty path is the folder where a session starts', 'NO_SUCH_FILE, NO_SUCH_FILE', (ground) =>
      all(ground.ask(names.stat, string('')), ground.ask(types.lstat, string(''))),
    ),
    check('STAT of a dot', 'ATTRS', (ground) => ground.ask(names.stat, string('.'))),
    check('STAT of the root', 'ATTRS', (ground) => ground.ask(names.stat, string('/'))),
    check('STAT of a path of 5,000 bytes', 'BAD_MESSAGE', (ground) =>
      ground.ask(names.stat, string('a/'.repeat(2500))),
    ),
    check('STAT of a name of 256 bytes', 'BAD_MESSAGE', (ground) => ground.kind('n'.repeat(256), names.stat)),
    check('STAT of a path with a NUL in it', 'the session ends', (ground) => ground.ask(names.stat, string('/a\0b'))),
    check('STAT tells size, owner, permissions and times', '15', async (ground) => {
      await file(ground)
      const { body } = await ground.client.ask(names.stat, ground.at('file'))
      return String(body.readUInt32BE(0))
    }),
    check('FSTAT of a file', 'file 10', async (ground) => {
      await file(ground)
      const found = await ground.attributesOfHandle(await ground.open('file', 'READ'))
      return typeof found === 'string' ? found : `${found.kind} ${found.size}`
    }),
    check('FSTAT behind WRITEs sees what they wrote', '20', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      void ground.write(handle, 10, '0123456789')
      const found = await ground.attributesOfHandle(handle)
      return typeof found === 'string' ? found : String(found.size)
    }),
    check('STAT behind WRITEs sees what they wrote', '20', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      void ground.write(handle, 10, '0123456789')
      return String(await ground.size('file'))
    }),
    check('A new file is dated now', 'now', async (ground) => {
      await file(ground)
      return timeOf(ground, 'file')
    }),
    check('SETSTAT with every set of attributes', 'OK', async (ground) => {
      await file(ground)
      const told = []
      for (const set of everySet()) told.push(await ground.setstat('file', set))
      return distinct(told)
    }),
    check('FSETSTAT with every set of attributes', 'OK', async (ground) => {
      await file(ground)
      const handle = await ground.open('file', 'READ WRITE')
      const told = []
      for (const set of everySet()) told.push(await ground.fsetstat(handle, set))
      return distinct(told)
    }),
    check('SETSTAT with every set of attributes of a missing name', 'NO_SUCH_FILE / OK', async (ground) => {
      const told = []
      for (const set of everySet()) told.push(await ground.setstat('none', set))
      return distinct(told)
    }),
    check('SETSTAT of a size cuts', 'OK, "0123"', async (ground) => {
      await file(ground)
      return all(await ground.setstat('file', attributes({ size: 4 })), ground.content('file'))
    }),
    check('SETSTAT of a size adds zeros', 'OK, "01\\u0000\\u0000"', async (ground) => {
      await file(ground, '01')
      return all(await ground.setstat('file', attributes({ size: 4 })), ground.content('file'))
    }),
    check('SETSTAT of size 0 empties', 'OK, ""', async (ground) => {
      await file(ground)
      return all(await ground.setstat('file', attributes({ size: 0 })), ground.content('file'))
    }),
    check('SETSTAT of a size of a folder', 'FAILURE', (ground) => ground.setstat('', attributes({ size: 4 }))),
    check('SETSTAT of a size above 2^63', 'BAD_MESSAGE, "0123456789"', async (ground) => {
      await file(ground)
      return all(await ground.setstat('file', attributes({ size: 2n ** 63n + 1n })), ground.content('file'))
    }),
    check('SETSTAT of times', 'OK, 1000000000', async (ground) => {
      await file(ground)
      return all(await ground.setstat('file', attributes({ times: 1_000_000_000 })), ground.modified('file'))
    }),
    check('SETSTAT of the first second', 'OK, 0', async (ground) => {
      await file(ground)
      return all(await ground.setstat('file', attributes({ times: 0 })), ground.modified('file'))
    }),
    check('SETSTAT of a time after 2038', 'OK, 4000000000', async (ground) => {
      await file(ground)
      return all(await ground.setstat('file', attributes({ times: 4_000_000_000 })), ground.modified('file'))
    }),
    check('SETSTAT of times of a folder', 'OK, 1000000000', async (ground) => {
      await ground.folders('folder')
      return all(await ground.setstat('folder', attributes({ times: 1_000_000_000 })), ground.modified('folder'))
    }),
    check('SETSTAT of permission bits', 'OK, 604', async (ground) => {
      await file(ground)
      return all(await ground.setstat('file', attributes({ mode: 0o604 })), ground.mode('file'))
    }),
    check('SETSTAT of permission bits with the kind of file', 'OK, 644, file', async (ground) => {
      await file(ground)
      return all(await ground.setstat('file', attributes({ mode: 0o100644 })), ground.mode('file'), ground.kind('file'))
    }),
    check('SETSTAT of permission bits of a folder', 'OK, 700', async (ground) => {
      await ground.folders('folder')
      return all(await ground.setstat('folder', attributes({ mode: 0o700 })), ground.mode('folder'))
    }),
    check('SETSTAT of the sticky bit', 'OK, 1755', async (ground) => {
      await ground.folders('folder')
      return all(await ground.setstat('folder', attributes({ mode: 0o1755 })), ground.mode('folder'))
    }),
    check('SETSTAT of size, permissions and times at once', 'OK, "01", 600, 1000000000', async (ground) => {
      await file(ground)
      const told = await ground.setstat('file', attributes({ size: 2, mode: 0o600, times: 1_000_000_000 }))
      return all(told, ground.content('file'), ground.mode('file'), ground.modified('file'))
    }),
    check('SETSTAT of an owner who is the user', 'OK', async (ground) => {
      await file(ground)
      return ground.setstat('file', attributes({ owner: process.getuid?.() ?? 0 }))
    }),
    check('SETSTAT of nothing', 'OK', async (ground) => {
      await file(ground)
      return ground.setstat('file', attributes({}))
    }),
    check('SETSTAT with extended attributes', 'OK', async (ground) => {
      await file(ground)
      return ground.setstat('file', Buffer.concat([uint32(0x80000000), uint32(1), string('a@b'), string('c')]))
    }),
    check('SETSTAT below a file', 'NO_SUCH_FILE', async (ground) => {
      await file(ground)
      return ground.setstat('file/below', attributes({ mode: 0o600 }))
    }),
    check('SETSTAT of a file that the session writes', 'OK, OK, "abc", 1000000000, 600', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      await ground.write(handle, 0, 'abc')
      const told = await ground.setstat('file', attributes({ mode: 0o600, times: 1_000_000_000 }))
      const closed = await ground.close(handle)
      return all(told, closed, ground.content('file'), ground.modified('file'), ground.mode('file'))
    }),
    check('FSETSTAT of times, then CLOSE', 'OK, OK, 1000000000', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      await ground.write(handle, 0, 'abc')
      const told = await ground.fsetstat(handle, attributes({ times: 1_000_000_000 }))
      return all(told, await ground.close(handle), ground.modified('file'))
    }),
    check('FSETSTAT of times, then WRITE', 'OK, 1000000000, OK, now, now', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      await ground.write(handle, 0, 'abc')
      const told = [await ground.fsetstat(handle, oldTimes), await timeOf(ground, handle)]
      told.push(await ground.write(handle, 3, 'd'), await timeOf(ground, handle))
      await ground.close(handle)
      return all(...told, timeOf(ground, 'file'))
    }),
    check('FSETSTAT of times between WRITEs that nobody waits for', 'now, 1000000000', async (ground) => {
      const write = (handle: Buffer, offset: number) => ground.write(handle, offset, 'x'.repeat(1000))
      const before = await ground.open('before', 'WRITE CREAT TRUNC')
      const after = await ground.open('after', 'WRITE CREAT TRUNC')
      await Promise.all([
        ...[write(before, 0), ground.fsetstat(before, oldTimes), write(before, 1000), ground.close(before)],
        ...[write(after, 0), write(after, 1000), ground.fsetstat(after, oldTimes), ground.close(after)],
      ])
      return all(timeOf(ground, 'before'), timeOf(ground, 'after'))
    }),
    check('SETSTAT of times of a file that the session writes, then WRITE', 'OK, now', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      const told = await ground.setstat('file', oldTimes)
      await ground.write(handle, 0, 'abc')
      await ground.close(handle)
      return all(told, timeOf(ground, 'file'))
    }),
    check('FSETSTAT of times, then of a size', 'OK, now', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      await ground.fsetstat(handle, oldTimes)
      const told = await ground.fsetstat(handle, attributes({ size: 4 }))
      await ground.close(handle)
      return all(told, timeOf(ground, 'file'))
    }),
    check('FSETSTAT of times, then WRITE of nothing', 'OK, 1000000000', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      await ground.fsetstat(handle, oldTimes)
      const told = await ground.write(handle, 0, '')
      await ground.close(handle)
      return all(told, timeOf(ground, 'file'))
    }),
    check('FSETSTAT of permission bits, then CLOSE', 'OK, OK, 751', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      const told = await ground.fsetstat(handle, attributes({ mode: 0o751 }))
      return all(told, await ground.close(handle), ground.mode('file'))
    }),
    check('FSETSTAT of a size by a handle that writes', 'OK, "0123"', async (ground) => {
      await file(ground)
      const handle = await ground.open('file', 'WRITE')
      const told = await ground.fsetstat(handle, attributes({ size: 4 }))
      await ground.close(handle)
      return all(told, ground.content('file'))
    }),
    check('FSETSTAT of a size larger than the file', 'OK, "01\\u0000\\u0000"', async (ground) => {
      await file(ground, '01')
      const handle = await ground.open('file', 'WRITE')
      const told = await ground.fsetstat(handle, attributes({ size: 4 }))
      await ground.close(handle)
      return all(told, ground.content('file'))
    }),
    check('FSETSTAT of a size of a new file, then fewer bytes', 'OK, "ab\\u0000\\u0000"', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      const told = await ground.fsetstat(handle, attributes({ size: 4 }))
      await ground.write(handle, 0, 'ab')
      await ground.close(handle)
      return all(told, ground.content('file'))
    }),
    check('FSETSTAT of a size by a handle that reads', 'BAD_MESSAGE, "0123456789"', async (ground) => {
      await file(ground)
      const handle = await ground.open('file', 'READ')
      return all(await ground.fsetstat(handle, attributes({ size: 4 })), ground.content('file'))
    }),
    check('FSETSTAT of times and permissions by a handle that reads', 'OK, 600, 1000000000', async (ground) => {
      await file(ground)
      const handle = await ground.open('file', 'READ')
      const told = await ground.fsetstat(handle, attributes({ mode: 0o600, times: 1_000_000_000 }))
      return all(told, ground.mode('file'), ground.modified('file'))
    }),
    check('FSETSTAT between WRITEs keeps their order', '"0123ab"', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      await Promise.all([
        ground.write(handle, 0, '0123456789'),
        ground.fsetstat(handle, attributes({ size: 4 })),
        ground.write(handle, 4, 'ab'),
      ])
      await ground.close(handle)
      return ground.content('file')
    }),
  ],
}
