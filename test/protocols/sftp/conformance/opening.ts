/** OPEN (draft §6.3): every combination of its flags, on every kind of entry. */
import { all, check, distinct, withSymlinks, type Section } from './check.js'
import { attributes, type Ground } from './ground.js'

const words = ['READ', 'WRITE', 'APPEND', 'CREAT', 'TRUNC', 'EXCL']
/** All 64 combinations. */
const combinations = Array.from({ length: 1 << words.length }, (_, bits) =>
  words.filter((_, at) => (bits & (1 << at)) !== 0),
)

type Meant = (has: (word: string) => boolean) => boolean

/** Opens with each of the selected combinations; `before` creates the entry for each. */
function each(name: string, meant: Meant, before: (ground: Ground) => Promise<unknown>, after = '') {
  return async (ground: Ground): Promise<string> => {
    const answers: string[] = []
    for (const combination of combinations.filter((some) => meant((word) => some.includes(word)))) {
      await ground.remove(after || name)
      await before(ground)
      const told = await ground.opens(name, combination.join(' '))
      answers.push(after === '' ? told : `${told}, then ${await ground.content(after)}`)
    }
    return distinct(answers)
  }
}

const nothing = async () => undefined
const ten = (ground: Ground) => ground.file('file', '0123456789')
const folder = (ground: Ground) => ground.mkdir('folder')
const link = async (ground: Ground) => {
  await ground.remove('link')
  await ground.file('file', '0123456789')
  if ((await ground.symlink('file', 'link')) !== 'OK') await ground.file('link', '0123456789')
}
const dangling = async (ground: Ground) => ground.symlink('nothing', 'link')

const claims: Meant = (has) => has('CREAT') && has('EXCL')
const plain: Meant = (has) => !claims(has) && !has('TRUNC')
const empties: Meant = (has) => !claims(has) && has('TRUNC') && has('WRITE')
const emptiesUnwritten: Meant = (has) => !claims(has) && has('TRUNC') && !has('WRITE')
const makes: Meant = (has) => has('CREAT')
const makesNothing: Meant = (has) => !has('CREAT')
const onlyReads: Meant = (has) => !has('WRITE') && !has('CREAT') && !has('TRUNC')
const whatever: Meant = () => true

export const opening: Section = {
  title: 'OPEN (draft 6.3)',
  checks: [
    check('OPEN of a missing name without CREAT', 'NO_SUCH_FILE', each('none', makesNothing, nothing)),
    check('OPEN of a missing name with CREAT', 'HANDLE, then ""', each('new', makes, nothing, 'new')),
    check('OPEN of a file without TRUNC', 'HANDLE, then "0123456789"', each('file', plain, ten, 'file')),
    check('OPEN of a file with WRITE and TRUNC', 'HANDLE, then ""', each('file', empties, ten, 'file')),
    check('OPEN of a file with TRUNC and not WRITE', 'HANDLE, then ""', each('file', emptiesUnwritten, ten, 'file')),
    check('OPEN of a file with CREAT and EXCL', 'FAILURE, then "0123456789"', each('file', claims, ten, 'file')),
    check('OPEN of a folder to read alone', 'HANDLE', each('folder', onlyReads, folder)),
    check(
      'OPEN of a folder to write, make or empty it',
      'FAILURE',
      each('folder', (has) => !onlyReads(has), folder),
    ),
    withSymlinks(
      'OPEN through a symlink without TRUNC',
      'HANDLE, then "0123456789"',
      each('link', plain, link, 'file'),
    ),
    withSymlinks('OPEN through a symlink with WRITE and TRUNC', 'HANDLE, then ""', each('link', empties, link, 'file')),
    withSymlinks('OPEN of a symlink with CREAT and EXCL', 'FAILURE', each('link', claims, link)),
    withSymlinks(
      'OPEN through a symlink to nothing without CREAT',
      'NO_SUCH_FILE, then NO_SUCH_FILE',
      each('link', makesNothing, dangling, 'nothing'),
    ),
    withSymlinks(
      'OPEN through a symlink to nothing with CREAT',
      'HANDLE, then ""',
      each('link', (has) => makes(has) && !has('EXCL'), dangling, 'nothing'),
    ),
    withSymlinks('OPEN of a symlink to nothing with CREAT and EXCL', 'FAILURE', each('link', claims, dangling)),
    check('OPEN below a missing folder', 'NO_SUCH_FILE', each('none/file', whatever, nothing)),
    check('OPEN below a file', 'NO_SUCH_FILE', each('file/below', whatever, ten)),
    check('OPEN of the folder itself by an empty path', 'FAILURE', (ground) => ground.opens('', 'WRITE')),
    check('OPEN of a name of 255 bytes', 'HANDLE', (ground) => ground.opens('n'.repeat(255), 'WRITE CREAT')),
    check('OPEN of a name of 256 bytes', 'BAD_MESSAGE', (ground) => ground.opens('n'.repeat(256), 'WRITE CREAT')),
    check('OPEN of a path of 5,000 bytes', 'BAD_MESSAGE', (ground) => ground.opens('a/'.repeat(2500), 'READ')),
    check('OPEN of a name in several alphabets', 'HANDLE, file', async (ground) => {
      const name = 'Größe Ελλάδα 数据 🎈'
      return all(ground.opens(name, 'WRITE CREAT'), ground.kind(name))
    }),
    check('OPEN of a name with blanks and punctuation', 'HANDLE, file', async (ground) => {
      const name = ` a "b" 'c' *?[x]{y}~!#$%&()+,;=@^\` .`
      return all(ground.opens(name, 'WRITE CREAT'), ground.kind(name))
    }),
    check('OPEN of a name with a control character', 'HANDLE', (ground) => ground.opens('a\u0007b', 'WRITE CREAT')),
    check('OPEN of a name with a backslash', 'HANDLE', (ground) => ground.opens('a\\b', 'WRITE CREAT')),
    check('OPEN with dots, doubled slashes and a slash at the end of its folder', 'HANDLE, file', async (ground) => {
      await ground.folders('folder')
      return all(ground.opens('folder/.././folder//new', 'WRITE CREAT'), ground.kind('folder/new'))
    }),
    check('OPEN of a file with a slash behind it', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      return ground.opens('file/', 'READ')
    }),
    check('OPEN with flags that no draft knows', 'HANDLE', async (ground) => {
      await ground.file('file')
      return ground.ask(3, ground.at('file'), Buffer.from('ffffff01', 'hex'), Buffer.alloc(4))
    }),
    check('OPEN makes a file with the permission bits it asks for', '755, 600, 644', async (ground) => {
      await ground.opens('tool', 'WRITE CREAT TRUNC', attributes({ mode: 0o755 }))
      await ground.opens('secret', 'WRITE CREAT EXCL', attributes({ mode: 0o600 }))
      await ground.opens('usual', 'WRITE CREAT')
      return all(ground.mode('tool'), ground.mode('secret'), ground.mode('usual'))
    }),
    check('OPEN makes a file less the bits of the umask', '755, 644', async (ground) => {
      await ground.opens('tool', 'WRITE CREAT TRUNC', attributes({ mode: 0o777 }))
      await ground.opens('file', 'WRITE CREAT EXCL', attributes({ mode: 0o666 }))
      return all(ground.mode('tool'), ground.mode('file'))
    }),
    check('OPEN leaves the permission bits of a file that stands there', '640, 640', async (ground) => {
      await ground.opens('file', 'WRITE CREAT', attributes({ mode: 0o640 }))
      await ground.opens('file', 'WRITE CREAT', attributes({ mode: 0o755 }))
      const before = await ground.mode('file')
      await ground.opens('file', 'WRITE CREAT TRUNC', attributes({ mode: 0o755 }))
      return all(before, ground.mode('file'))
    }),
    check('OPEN makes nothing of a size or times it is given', 'HANDLE, "", true', async (ground) => {
      const told = await ground.opens('file', 'WRITE CREAT', attributes({ size: 100, times: 1_000_000_000 }))
      const { modified } = (await ground.attributes('file')) as { readonly modified: number }
      return all(told, ground.content('file'), modified > 1_600_000_000)
    }),
    check('OPEN to write alone gives a handle that is not read from', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('file', 'abc')
      return ground.read(await ground.open('file', 'WRITE'), 0, 3)
    }),
    check('OPEN to read alone gives a handle that is not written to', 'NO_SUCH_FILE, "abc"', async (ground) => {
      await ground.file('file', 'abc')
      return all(ground.write(await ground.open('file', 'READ'), 0, 'x'), ground.content('file'))
    }),
    check('OPEN to read and write gives a handle for both', 'OK, "axc"', async (ground) => {
      await ground.file('file', 'abc')
      const handle = await ground.open('file', 'READ WRITE')
      return all(await ground.write(handle, 1, 'x'), ground.read(handle, 0, 3))
    }),
    check('OPEN of an executable name that another session holds open', 'HANDLE, HANDLE', async (ground) => {
      await ground.file('file', 'abc')
      const other = await ground.another()
      await other.open('file', 'READ WRITE')
      return all(ground.opens('file', 'READ'), ground.opens('file', 'READ WRITE'))
    }),
  ],
}
