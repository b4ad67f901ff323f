/** REMOVE and RENAME (draft §6.5), MKDIR and RMDIR (draft §6.6). */
import { all, check, withSymlinks, type Check, type Section } from './check.js'
import { attributes, type Ground } from './ground.js'

export const namesSection: Section = {
  title: 'REMOVE, MKDIR, RMDIR (draft 6.5, 6.6)',
  checks: [
    check('REMOVE of a file', 'OK, NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      return all(await ground.remove('file'), ground.kind('file'))
    }),
    check('REMOVE of a missing name', 'NO_SUCH_FILE', (ground) => ground.remove('none')),
    check('REMOVE of a folder', 'FAILURE, folder', async (ground) => {
      await ground.folders('folder')
      return all(await ground.remove('folder'), ground.kind('folder'))
    }),
    check('REMOVE below a missing folder', 'NO_SUCH_FILE', (ground) => ground.remove('none/file')),
    check('REMOVE below a file', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      return ground.remove('file/below')
    }),
    check('REMOVE twice at once', 'OK, NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      return all(ground.remove('file'), ground.remove('file'))
    }),
    check('REMOVE of a file that the session writes', 'OK, OK, OK, NO_SUCH_FILE', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      const gone = await ground.remove('file')
      return all(gone, await ground.write(handle, 0, 'x'), await ground.close(handle), ground.kind('file'))
    }),
    check('REMOVE, then the name made anew beside the old handle', 'OK, "old", "new"', async (ground) => {
      await ground.file('file', 'old')
      const handle = await ground.open('file', 'READ WRITE')
      const gone = await ground.remove('file')
      await ground.file('file', 'new')
      const read = await ground.read(handle, 0, 9)
      await ground.close(handle)
      return all(gone, read, ground.content('file'))
    }),
    check('MKDIR', 'OK, folder, 755', async (ground) =>
      all(await ground.mkdir('folder'), ground.kind('folder'), ground.mode('folder')),
    ),
    check('MKDIR with permission bits', 'OK, 700', async (ground) =>
      all(await ground.mkdir('folder', attributes({ mode: 0o700 })), ground.mode('folder')),
    ),
    check('MKDIR with permission bits less the umask', 'OK, 755', async (ground) =>
      all(await ground.mkdir('folder', attributes({ mode: 0o777 })), ground.mode('folder')),
    ),
    check('MKDIR with bits above the permissions', 'OK, 1755', async (ground) =>
      all(await ground.mkdir('folder', attributes({ mode: 0o43777 })), ground.mode('folder')),
    ),
    check('MKDIR with size, owner and times', 'OK', (ground) =>
      ground.mkdir('folder', attributes({ size: 5, owner: 1, times: 1 })),
    ),
    check('MKDIR over a folder', 'FAILURE', async (ground) => {
      await ground.folders('folder')
      return ground.mkdir('folder')
    }),
    check('MKDIR over a file', 'FAILURE', async (ground) => {
      await ground.file('file')
      return ground.mkdir('file')
    }),
    check('MKDIR over a file that the session writes', 'FAILURE', async (ground) => {
      await ground.open('file', 'WRITE CREAT TRUNC')
      return ground.mkdir('file')
    }),
    check('MKDIR below a missing folder', 'NO_SUCH_FILE', (ground) => ground.mkdir('none/folder')),
    check('MKDIR below a file', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      return ground.mkdir('file/folder')
    }),
    check('MKDIR with a slash at the end', 'OK, folder', async (ground) =>
      all(await ground.mkdir('folder/'), ground.kind('folder')),
    ),
    check('MKDIR of a name of 256 bytes', 'BAD_MESSAGE', (ground) => ground.mkdir('n'.repeat(256))),
    check('MKDIR of the root', 'FAILURE', (ground) =>
      ground.ask(14, Buffer.from('000000012f', 'hex'), Buffer.alloc(4)),
    ),
    check('MKDIR of a folder and another in it at once', 'OK, OK, OK', (ground) =>
      all(ground.mkdir('a'), ground.mkdir('a/b'), ground.mkdir('a/b/c')),
    ),
    check('RMDIR of an empty folder', 'OK, NO_SUCH_FILE', async (ground) => {
      await ground.folders('folder')
      return all(await ground.rmdir('folder'), ground.kind('folder'))
    }),
    check('RMDIR of a folder with a file in it', 'FAILURE, file', async (ground) => {
      await ground.folders('folder')
      await ground.file('folder/file')
      return all(await ground.rmdir('folder'), ground.kind('folder/file'))
    }),
    check('RMDIR of a folder in which the session writes its first file', 'FAILURE, OK, file', async (ground) => {
      await ground.folders('folder')
      const handle = await ground.open('folder/file', 'WRITE CREAT TRUNC')
      return all(await ground.rmdir('folder'), await ground.close(handle), ground.kind('folder/file'))
    }),
    check('RMDIR of a missing name', 'NO_SUCH_FILE', (ground) => ground.rmdir('none')),
    check('RMDIR of a file', 'NO_SUCH_FILE, file', async (ground) => {
      await ground.file('file')
      return all(await ground.rmdir('file'), ground.kind('file'))
    }),
    check('RMDIR of a file that the session has only begun', 'NO_SUCH_FILE, OK, "abc"', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      void ground.write(handle, 0, 'abc')
      return all(await ground.rmdir('file'), await ground.close(handle), ground.content('file'))
    }),
    check('RMDIR of a folder that is open', 'OK', async (ground) => {
      await ground.folders('folder')
      await ground.openFolder('folder')
      return ground.rmdir('folder')
    }),
    check('RMDIR of the root', 'FAILURE', (ground) => ground.ask(15, Buffer.from('000000012f', 'hex'))),
    check('RMDIR by a path that ends with a dot', 'BAD_MESSAGE', async (ground) => {
      await ground.folders('folder')
      return ground.rmdir('folder/.')
    }),
  ],
}

/** The responses to RENAME and posix-rename, and which of both names exist afterwards. */
async function both(ground: Ground, from: string, to: string): Promise<string> {
  const one = await ground.rename(from, to)
  return all(one, await ground.kind(from), ground.kind(to))
}

const kinds = ['file', 'empty', 'full', 'link'] as const
type Kind = (typeof kinds)[number]

async function make(ground: Ground, kind: Kind, name: string): Promise<void> {
  if (kind === 'file') await ground.file(name, 'abc')
  else if (kind === 'link') await ground.symlink('nothing', name)
  else await ground.folders(name)
  if (kind === 'full') await ground.file(`${name}/inner`, '')
}

const called: Record<Kind, string> = {
  file: 'a file',
  empty: 'an empty folder',
  full: 'a full folder',
  link: 'a symlink',
}

/** What each kind may replace according to rename(2). */
const replaces: Record<Kind, Record<Kind, string>> = {
  file: { file: 'OK', empty: 'FAILURE', full: 'FAILURE', link: 'OK' },
  link: { file: 'OK', empty: 'FAILURE', full: 'FAILURE', link: 'OK' },
  empty: { file: 'NO_SUCH_FILE', empty: 'OK', full: 'FAILURE', link: 'NO_SUCH_FILE' },
  full: { file: 'NO_SUCH_FILE', empty: 'OK', full: 'FAILURE', link: 'NO_SUCH_FILE' },
}

function overEach(): Check[] {
  return kinds.flatMap((from) =>
    kinds.flatMap((to) => [
      (from === 'link' || to === 'link' ? withSymlinks : check)(
        `posix-rename of ${called[from]} over ${called[to]}`,
        replaces[from][to],
        async (ground) => {
          await make(ground, from, 'from')
          await make(ground, to, 'to')
          return ground.posixRename('from', 'to')
        },
      ),
      (from === 'link' || to === 'link' ? withSymlinks : check)(
        `RENAME of ${called[from]} over ${called[to]}`,
        renames[from][to],
        async (ground) => {
          await make(ground, from, 'from')
          await make(ground, to, 'to')
          return ground.rename('from', 'to')
        },
      ),
    ]),
  )
}

/** OpenSSH's server follows a symlink to see whether a name exists; folders and symlinks behave as in rename(2). */
const renames: Record<Kind, Record<Kind, string>> = {
  file: { file: 'FAILURE', empty: 'FAILURE', full: 'FAILURE', link: 'FAILURE' },
  link: { file: 'FAILURE', empty: 'FAILURE', full: 'FAILURE', link: 'OK' },
  empty: { file: 'FAILURE', empty: 'FAILURE', full: 'FAILURE', link: 'NO_SUCH_FILE' },
  full: { file: 'FAILURE', empty: 'FAILURE', full: 'FAILURE', link: 'NO_SUCH_FILE' },
}

export const renaming: Section = {
  title: 'RENAME (draft 6.5) and posix-rename@openssh.com',
  checks: [
    ...overEach(),
    check('RENAME of a file', 'OK, NO_SUCH_FILE, file', async (ground) => {
      await ground.file('file')
      return both(ground, 'file', 'other')
    }),
    check('RENAME of a folder with what is in it', 'OK, NO_SUCH_FILE, folder, "abc"', async (ground) => {
      await ground.folders('folder')
      await ground.file('folder/file', 'abc')
      return all(both(ground, 'folder', 'other'), ground.content('other/file'))
    }),
    check('RENAME into another folder', 'OK, NO_SUCH_FILE, file', async (ground) => {
      await ground.folders('folder')
      await ground.file('file')
      return both(ground, 'file', 'folder/file')
    }),
    check('RENAME of a missing name', 'NO_SUCH_FILE', (ground) => ground.rename('none', 'other')),
    check('RENAME into a missing folder', 'NO_SUCH_FILE, file', async (ground) => {
      await ground.file('file')
      return all(await ground.rename('file', 'none/file'), ground.kind('file'))
    }),
    check('RENAME below a file', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      await ground.file('other')
      return ground.rename('other', 'file/below')
    }),
    check('RENAME of a folder into itself', 'BAD_MESSAGE, folder', async (ground) => {
      await ground.folders('folder')
      return all(await ground.rename('folder', 'folder/below'), ground.kind('folder'))
    }),
    check('RENAME to the name it has', 'FAILURE, "abc"', async (ground) => {
      await ground.file('file', 'abc')
      return all(await ground.rename('file', 'file'), ground.content('file'))
    }),
    check('RENAME keeps content, permission bits and time', 'OK, "abc", 600, 1000000000', async (ground) => {
      await ground.file('file', 'abc')
      await ground.setstat('file', attributes({ mode: 0o600, times: 1_000_000_000 }))
      const told = await ground.rename('file', 'other')
      return all(told, ground.content('other'), ground.mode('other'), ground.modified('other'))
    }),
    check('RENAME that only changes case', 'OK, Name', async (ground) => {
      await ground.file('name')
      return all(await ground.rename('name', 'Name'), ground.listed())
    }),
    check('RENAME of a file that the session writes', 'OK, OK, OK, "first second"', async (ground) => {
      const handle = await ground.open('part', 'WRITE CREAT TRUNC')
      await ground.write(handle, 0, 'first ')
      const moved = await ground.rename('part', 'whole')
      return all(moved, await ground.write(handle, 6, 'second'), await ground.close(handle), ground.content('whole'))
    }),
    check('RENAME over a name that the session makes', 'FAILURE', async (ground) => {
      await ground.file('file')
      await ground.open('new', 'WRITE CREAT TRUNC')
      return ground.rename('file', 'new')
    }),
    check('RENAMEs in a ring at once', 'OK, OK, OK, "a", "b"', async (ground) => {
      await ground.file('one', 'a')
      await ground.file('two', 'b')
      const told = [ground.rename('one', 'aside'), ground.rename('two', 'one'), ground.rename('aside', 'two')]
      return all(...told, ground.content('two'), ground.content('one'))
    }),
    check('posix-rename of a file', 'OK, NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      return all(await ground.posixRename('file', 'other'), ground.kind('file'))
    }),
    check('posix-rename of a missing name', 'NO_SUCH_FILE', (ground) => ground.posixRename('none', 'other')),
    check('posix-rename of a missing name over a file', 'NO_SUCH_FILE, file', async (ground) => {
      await ground.file('file')
      return all(await ground.posixRename('none', 'file'), ground.kind('file'))
    }),
    check('posix-rename into a missing folder', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      return ground.posixRename('file', 'none/file')
    }),
    check('posix-rename of a folder into itself', 'BAD_MESSAGE', async (ground) => {
      await ground.folders('folder')
      return ground.posixRename('folder', 'folder/below')
    }),
    check('posix-rename to the name it has', 'OK, "abc"', async (ground) => {
      await ground.file('file', 'abc')
      return all(await ground.posixRename('file', 'file'), ground.content('file'))
    }),
    check('posix-rename over a file takes its content', 'OK, "new"', async (ground) => {
      await ground.file('new', 'new')
      await ground.file('file', 'the old bytes')
      return all(await ground.posixRename('new', 'file'), ground.content('file'))
    }),
    check('posix-rename over an empty folder takes what is in it', 'OK, inner', async (ground) => {
      await make(ground, 'full', 'full')
      await make(ground, 'empty', 'empty')
      return all(await ground.posixRename('full', 'empty'), ground.listed('empty'))
    }),
  ],
}
