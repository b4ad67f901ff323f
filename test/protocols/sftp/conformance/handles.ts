/** Handles (draft §6.3 and §6.7): the session that they belong to, and their lifetime. */
import { names, string, types, uint32, uint64 } from '../packet-client.js'
import { all, check, distinct, type Section } from './check.js'
import type { Ground } from './ground.js'

const nobodys = Buffer.from('nobody')

async function closed(ground: Ground): Promise<Buffer> {
  await ground.file('file', 'abc')
  const handle = await ground.open('file', 'READ WRITE')
  await ground.close(handle)
  return handle
}

async function onAll(ground: Ground, handle: Buffer): Promise<string> {
  const told = await Promise.all([
    ground.read(handle, 0, 1),
    ground.write(handle, 0, 'x'),
    ground.ask(types.fstat, string(handle)),
    ground.fsetstat(handle, uint32(0)),
    ground.ask(names.readdir, string(handle)),
    ground.extended('fstatvfs@openssh.com', string(handle)),
  ])
  const synced = await ground.extended('fsync@openssh.com', string(handle))
  return `${distinct(told)}, fsync ${synced}, CLOSE ${await ground.close(handle)}`
}

const refused = 'FAILURE, fsync NO_SUCH_FILE, CLOSE NO_SUCH_FILE'

export const handlesSection: Section = {
  title: 'Handles (draft 6.3, 6.7)',
  checks: [
    check('A handle of nobody in every request', refused, (ground) => onAll(ground, nobodys)),
    check('A handle that was never given', refused, (ground) => onAll(ground, uint32(4711))),
    check('A handle of no bytes', refused, (ground) => onAll(ground, Buffer.alloc(0))),
    check('A handle of 256 bytes', refused, (ground) => onAll(ground, Buffer.alloc(256))),
    check('A handle after its CLOSE', refused, async (ground) => onAll(ground, await closed(ground))),
    check('A handle of another session', `${refused}, "abc"`, async (ground) => {
      await ground.file('file', 'abc')
      const other = await ground.another()
      await other.file('other', '')
      for (let count = 0; count < 5; count++) await other.open('file', 'READ')
      const theirs = await other.open('file', 'READ WRITE')
      return all(onAll(ground, theirs), other.read(theirs, 0, 9))
    }),
    check('CLOSE twice at once', 'OK, NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      const handle = await ground.open('file', 'READ')
      return all(ground.close(handle), ground.close(handle))
    }),
    check('Two handles on one file are two', 'false, OK, "abc"', async (ground) => {
      await ground.file('file', 'abc')
      const [one, two] = [await ground.open('file', 'READ'), await ground.open('file', 'READ')]
      return all(one.equals(two), ground.close(one), ground.read(two, 0, 9))
    }),
    check('A handle is at most 256 bytes long', 'true', async (ground) => {
      await ground.file('file')
      return String((await ground.open('file', 'READ')).length <= 256)
    }),
    check('A hundred handles at once', 'OK, OK', async (ground) => {
      await ground.file('file')
      const handles = await Promise.all(Array.from({ length: 100 }, () => ground.open('file', 'READ')))
      const told = await Promise.all(handles.map((handle) => ground.close(handle)))
      return all([...new Set(told)].join(), ground.close(await ground.open('file', 'READ')))
    }),
    check('A handle of a folder in requests of files', 'FAILURE, FAILURE', async (ground) => {
      const handle = await ground.openFolder()
      return all(ground.read(handle, 0, 1), ground.write(handle, 0, 'x'))
    }),
    check('A handle of a file in READDIR', 'FAILURE', async (ground) => {
      await ground.file('file')
      return ground.ask(names.readdir, string(await ground.open('file', 'READ')))
    }),
    check('FSTAT by a handle of a folder', 'FAILURE', async (ground) => {
      const found = await ground.attributesOfHandle(await ground.openFolder())
      return typeof found === 'string' ? found : found.kind
    }),
    check('FSETSTAT by a handle of a folder', 'FAILURE, 755', async (ground) => {
      await ground.folders('folder')
      const told = await ground.fsetstat(await ground.openFolder('folder'), Buffer.concat([uint32(4), uint32(0o700)]))
      return all(told, ground.mode('folder'))
    }),
    check('FSTAT of what the session has removed', 'OK, 3', async (ground) => {
      await ground.file('file', 'abc')
      const handle = await ground.open('file', 'READ')
      const gone = await ground.remove('file')
      const found = await ground.attributesOfHandle(handle)
      return all(gone, typeof found === 'string' ? found : found.size)
    }),
    check('A handle goes with its file to another name', 'OK, OK, "xbc", NO_SUCH_FILE', async (ground) => {
      await ground.file('file', 'abc')
      const handle = await ground.open('file', 'READ WRITE')
      const moved = await ground.rename('file', 'other')
      await ground.write(handle, 0, 'x')
      return all(moved, await ground.close(handle), ground.content('other'), ground.kind('file'))
    }),
    check('A handle goes with the folder that its file is in', 'OK, OK, "xbc"', async (ground) => {
      await ground.folders('folder')
      await ground.file('folder/file', 'abc')
      const handle = await ground.open('folder/file', 'READ WRITE')
      const moved = await ground.rename('folder', 'other')
      await ground.write(handle, 0, 'x')
      return all(moved, await ground.close(handle), ground.content('other/file'))
    }),
    check('A handle to a file that another took the name of', 'OK, OK, "new"', async (ground) => {
      await ground.file('file', 'old')
      await ground.file('fresh', 'new')
      const handle = await ground.open('file', 'WRITE')
      const moved = await ground.posixRename('fresh', 'file')
      await ground.write(handle, 0, 'xxx')
      return all(moved, await ground.close(handle), ground.content('file'))
    }),
    check('CLOSE behind WRITEs that are on their way', 'OK, OK, "abcdef"', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      const written = [ground.write(handle, 0, 'abc'), ground.write(handle, 3, 'def')]
      const told = ground.close(handle)
      return all([...new Set(await Promise.all(written))].join(), told, ground.content('file'))
    }),
    check('WRITE behind CLOSE', 'OK, FAILURE, ""', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      const told = ground.close(handle)
      const written = ground.ask(types.write, string(handle), uint64(0), string('late'))
      return all(told, written, ground.content('file'))
    }),
    check('What was never closed is there after the session', '"half"', async (ground) => {
      const other = await ground.another()
      const handle = await other.open('file', 'WRITE CREAT TRUNC')
      await other.write(handle, 0, 'half')
      other.client.channel.end()
      await other.client.closed
      return ground.content('file')
    }),
  ],
}
