/** READLINK and SYMLINK (draft §6.10), LSTAT of symlinks (§6.8), REALPATH (§6.11). */
import { names, types } from '../packet-client.js'
import { all, check, withSymlinks, type Section } from './check.js'
import { attributes, type Ground } from './ground.js'

async function linked(ground: Ground): Promise<void> {
  await ground.file('file', 'abc')
  await ground.symlink('file', 'link')
}

export const symlinksSection: Section = {
  title: 'SYMLINK, READLINK, REALPATH (draft 6.10, 6.11)',
  checks: [
    check('SYMLINK takes the target first', 'OK, file', async (ground) => {
      await ground.file('file')
      return all(await ground.symlink('file', 'link'), ground.readlink('link'))
    }),
    withSymlinks('SYMLINK to a name that is not there', 'OK, none', async (ground) =>
      all(await ground.symlink('none', 'link'), ground.readlink('link')),
    ),
    withSymlinks('SYMLINK to a name above', 'OK, ../none', async (ground) => {
      await ground.folders('folder')
      return all(await ground.symlink('../none', 'folder/link'), ground.readlink('folder/link'))
    }),
    withSymlinks('SYMLINK to an absolute path', 'OK, …/file, "abc"', async (ground) => {
      await ground.file('file', 'abc')
      return all(await ground.symlink(ground.path('file'), 'link'), ground.readlink('link'), ground.content('link'))
    }),
    withSymlinks('SYMLINK over a file', 'FAILURE', async (ground) => {
      await ground.file('file')
      return ground.symlink('file', 'file')
    }),
    withSymlinks('SYMLINK over a symlink', 'FAILURE', async (ground) => {
      await ground.symlink('none', 'link')
      return ground.symlink('none', 'link')
    }),
    withSymlinks('SYMLINK in a missing folder', 'NO_SUCH_FILE', (ground) => ground.symlink('file', 'none/link')),
    withSymlinks('SYMLINK to an empty text', 'NO_SUCH_FILE', (ground) => ground.symlink('', 'link')),
    withSymlinks('READLINK of a file', 'BAD_MESSAGE', async (ground) => {
      await ground.file('file')
      return ground.readlink('file')
    }),
    withSymlinks('READLINK of a folder', 'BAD_MESSAGE', (ground) => ground.readlink('')),
    check('READLINK of a missing name', 'NO_SUCH_FILE', (ground) => ground.readlink('none')),
    withSymlinks('LSTAT of a symlink and STAT through it', 'link, file', async (ground) => {
      await linked(ground)
      return all(ground.kind('link', types.lstat), ground.kind('link', names.stat))
    }),
    withSymlinks('STAT through a symlink to nothing', 'link, NO_SUCH_FILE', async (ground) => {
      await ground.symlink('none', 'link')
      return all(ground.kind('link', types.lstat), ground.kind('link', names.stat))
    }),
    withSymlinks('STAT through a symlink to itself', 'link, NO_SUCH_FILE', async (ground) => {
      await ground.symlink('link', 'link')
      return all(ground.kind('link', types.lstat), ground.kind('link', names.stat))
    }),
    withSymlinks('LSTAT of a symlink tells the length of its text', '4', async (ground) => {
      await linked(ground)
      const found = await ground.attributes('link', types.lstat)
      return typeof found === 'string' ? found : String(found.size)
    }),
    withSymlinks('READDIR tells of a symlink what LSTAT tells', 'link 4 777', async (ground) => {
      await linked(ground)
      const found = (await ground.list()).find(({ name }) => name === 'link')?.attributes
      return found ? `${found.kind} ${found.size} ${(found.mode & 0o7777).toString(8)}` : 'nothing'
    }),
    withSymlinks('SETSTAT through a symlink to nothing', 'NO_SUCH_FILE, NO_SUCH_FILE, link', async (ground) => {
      await ground.symlink('none', 'link')
      const told = await ground.setstat('link', attributes({ mode: 0o600 }))
      return all(told, await ground.setstat('link', attributes({ size: 4 })), ground.kind('link'))
    }),
    withSymlinks(
      'A symlink to nothing is a way to nothing',
      'NO_SUCH_FILE, NO_SUCH_FILE, NO_SUCH_FILE',
      async (ground) => {
        await ground.symlink('none', 'link')
        return all(ground.kind('link/file'), ground.mkdir('link/new'), ground.opens('link/file', 'WRITE CREAT'))
      },
    ),
    withSymlinks('A symlink to a folder is a way into it', '"abc", OK, OK', async (ground) => {
      await ground.folders('folder')
      await ground.file('folder/file', 'abc')
      await ground.symlink('folder', 'link')
      return all(ground.content('link/file'), await ground.mkdir('link/new'), ground.rmdir('folder/new'))
    }),
    withSymlinks('REMOVE of a symlink leaves its target', 'OK, NO_SUCH_FILE, "abc"', async (ground) => {
      await linked(ground)
      return all(await ground.remove('link'), ground.kind('link'), ground.content('file'))
    }),
    withSymlinks('RMDIR of a symlink to a folder', 'NO_SUCH_FILE, link', async (ground) => {
      await ground.folders('folder')
      await ground.symlink('folder', 'link')
      return all(await ground.rmdir('link'), ground.kind('link'))
    }),
    withSymlinks('RENAME of a symlink moves the link', 'OK, link, "abc"', async (ground) => {
      await linked(ground)
      return all(await ground.rename('link', 'other'), ground.kind('other'), ground.content('other'))
    }),
    withSymlinks('SETSTAT through a symlink changes its target', 'OK, 600', async (ground) => {
      await linked(ground)
      return all(await ground.setstat('link', attributes({ mode: 0o600 })), ground.mode('file'))
    }),
    withSymlinks('MKDIR over a symlink to nothing', 'FAILURE', async (ground) => {
      await ground.symlink('none', 'link')
      return ground.mkdir('link')
    }),
    check('REALPATH of the folder itself', '…', (ground) => ground.realpath(ground.path())),
    check('REALPATH of a dot is absolute', 'true', async (ground) =>
      String((await ground.realpath('.')).startsWith('/')),
    ),
    check('REALPATH of an empty path is that of a dot', 'true', async (ground) =>
      String((await ground.realpath('')) === (await ground.realpath('.'))),
    ),
    check('REALPATH with dots and slashes', '…/folder', async (ground) => {
      await ground.folders('folder')
      return ground.realpath(`${ground.path()}//./folder/../folder/`)
    }),
    check('REALPATH above the root', '/', (ground) => ground.realpath('/../..')),
    check('REALPATH of a missing name in a folder', '…/none', (ground) => ground.realpath(ground.path('none'))),
    check('REALPATH below a missing folder', 'NO_SUCH_FILE', (ground) => ground.realpath(ground.path('none/none'))),
    check('REALPATH below a file', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      return ground.realpath(ground.path('file/below'))
    }),
    withSymlinks('REALPATH of a symlink is its target', '…/file', async (ground) => {
      await linked(ground)
      return ground.realpath(ground.path('link'))
    }),
    check('REALPATH of a path of 5,000 bytes', 'BAD_MESSAGE', (ground) => ground.realpath(`/${'a/'.repeat(2500)}`)),
  ],
}
