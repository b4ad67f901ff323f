/** OPENDIR and READDIR (draft §6.7), and the long names of §7. */
import { names, string } from '../packet-client.js'
import { all, check, withSymlinks, type Section } from './check.js'
import { attributes, namesIn, sorted, type Ground } from './ground.js'

const opendir = (ground: Ground, name: string) => ground.ask(names.opendir, ground.at(name))

async function longName(ground: Ground, name: string): Promise<string> {
  return (await ground.list()).find((entry) => entry.name === name)?.longName ?? 'not listed'
}

/** `-rw-r--r--    1 ada      ada             5 Jan  2 03:04 name` with single spaces, and without owner and time. */
async function shape(ground: Ground, name: string): Promise<string> {
  const [mode, , , , size, ...rest] = (await longName(ground, name)).split(/ +/)
  return [mode, size, rest.slice(3).join(' ')].join(' ')
}

export const foldersSection: Section = {
  title: 'OPENDIR and READDIR (draft 6.7)',
  checks: [
    check('OPENDIR of a folder', 'HANDLE', (ground) => opendir(ground, '')),
    check('OPENDIR of a missing name', 'NO_SUCH_FILE', (ground) => opendir(ground, 'none')),
    check('OPENDIR of a file', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      return opendir(ground, 'file')
    }),
    check('OPENDIR below a file', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      return opendir(ground, 'file/below')
    }),
    check('OPENDIR with a slash at the end', 'HANDLE', (ground) => opendir(ground, '/')),
    withSymlinks('OPENDIR through a symlink', 'HANDLE', async (ground) => {
      await ground.folders('folder')
      await ground.symlink('folder', 'link')
      return opendir(ground, 'link')
    }),
    check('READDIR of an empty folder has the dots alone', '. ..', async (ground) =>
      (await ground.list())
        .map(({ name }) => name)
        .sort()
        .join(' '),
    ),
    check('READDIR tells the dots as folders', 'folder folder', async (ground) =>
      (await ground.list()).map(({ attributes }) => attributes.kind).join(' '),
    ),
    check('READDIR after the end', 'EOF, EOF', async (ground) => {
      const handle = await ground.openFolder()
      await ground.rest(handle)
      return all(ground.ask(names.readdir, string(handle)), ground.ask(names.readdir, string(handle)))
    }),
    check('READDIR tells names, kinds and sizes', 'file file 5, folder folder', async (ground) => {
      await ground.folders('folder')
      await ground.file('file', 'abcde')
      const list = await ground.list()
      const of = (name: string) => list.find((entry) => entry.name === name)?.attributes
      return all(`file ${of('file')?.kind} ${of('file')?.size}`, `folder ${of('folder')?.kind}`)
    }),
    withSymlinks('READDIR tells symlinks as symlinks', 'link', async (ground) => {
      await ground.symlink('nothing', 'link')
      return (await ground.list()).find(({ name }) => name === 'link')?.attributes.kind ?? 'not listed'
    }),
    check('READDIR tells permission bits and times', '600, 1000000000', async (ground) => {
      await ground.file('file')
      await ground.setstat('file', attributes({ mode: 0o600, times: 1_000_000_000 }))
      const found = (await ground.list()).find(({ name }) => name === 'file')?.attributes
      return all(((found?.mode ?? 0) & 0o777).toString(8), found?.modified ?? '?')
    }),
    check('READDIR of 1,500 names tells every one of them once', '1502, 1502', async (ground) => {
      const handles = []
      for (let at = 0; at < 1500; at++) handles.push(ground.mkdir(`a name that is somewhat longer than most ${at}`))
      await Promise.all(handles)
      const list = await ground.list()
      return all(list.length, new Set(list.map(({ name }) => name)).size)
    }),
    check('READDIRs that are asked for at once tell every name once', '502', async (ground) => {
      await Promise.all(Array.from({ length: 500 }, (_, at) => ground.mkdir(`folder ${at}`)))
      const handle = await ground.openFolder()
      const told = await Promise.all(Array.from({ length: 20 }, () => ground.client.ask(names.readdir, string(handle))))
      const found = told.filter(({ type }) => type === 104).map(({ body }) => body.readUInt32BE(0))
      return String(found.reduce((sum, count) => sum + count, 0))
    }),
    check('READDIR of one folder by two handles', 'a b, a b', async (ground) => {
      await ground.folders('a', 'b')
      const [one, two] = [await ground.openFolder(), await ground.openFolder()]
      return all(sorted(await ground.rest(one)), sorted(await ground.rest(two)))
    }),
    check('READDIR goes on while names come and go', 'true', async (ground) => {
      await Promise.all(Array.from({ length: 1000 }, (_, at) => ground.mkdir(`stays ${at}`)))
      const handle = await ground.openFolder()
      const first = await ground.client.ask(names.readdir, string(handle))
      await ground.folders('comes')
      await ground.mkdir('goes')
      await ground.rmdir('goes')
      const all = [...namesIn(first.body), ...(await ground.rest(handle))].map(({ name }) => name)
      return String(new Set(all).size === all.length && all.filter((name) => name.startsWith('stays')).length === 1000)
    }),
    check('READDIR of a folder that was removed meanwhile', 'OK, EOF', async (ground) => {
      await ground.folders('folder')
      const handle = await ground.openFolder('folder')
      await ground.ask(names.readdir, string(handle))
      return all(await ground.rmdir('folder'), ground.ask(names.readdir, string(handle)))
    }),
    check('READDIR has the names that the session is writing', 'new', async (ground) => {
      await ground.open('new', 'WRITE CREAT TRUNC')
      return ground.listed()
    }),
    check('READDIR has names of several alphabets as they were made', 'Größe Ελλάδα 数据 🎈', async (ground) => {
      await ground.folders('Größe Ελλάδα 数据 🎈')
      return ground.listed()
    }),
    check('Long name of a file', '-rw-r--r-- 5 a file', async (ground) => {
      await ground.file('a file', 'abcde')
      return shape(ground, 'a file')
    }),
    check('Long name of an executable', '-rwxr-x--x 0 tool', async (ground) => {
      await ground.file('tool')
      await ground.setstat('tool', attributes({ mode: 0o751 }))
      return shape(ground, 'tool')
    }),
    check('Long name of a folder begins with d', 'drwxr-xr-x', async (ground) => {
      await ground.folders('folder')
      return (await longName(ground, 'folder')).slice(0, 10)
    }),
    withSymlinks('Long name of a symlink begins with l', 'lrwxrwxrwx', async (ground) => {
      await ground.symlink('nothing', 'link')
      return (await longName(ground, 'link')).slice(0, 10)
    }),
    check('Long name with the year of an old file', 'true', async (ground) => {
      await ground.file('file')
      await ground.setstat('file', attributes({ times: 1_000_000_000 }))
      return String(/ Sep +9 +2001 file$/.test(await longName(ground, 'file')))
    }),
    check('Long name with the time of a new file', 'true', async (ground) => {
      await ground.file('file')
      return String(/ [A-Z][a-z]{2} [ \d]\d \d\d:\d\d file$/.test(await longName(ground, 'file')))
    }),
    check('Long names have the columns of ls', 'true', async (ground) => {
      await ground.file('file', 'abc')
      return String(/^-[rwx-]{9} +\d+ \S+ +\S+ +3 \S{3} [ \d]\d +\S+ file$/.test(await longName(ground, 'file')))
    }),
  ],
}
