/** Extensions of OpenSSH's PROTOCOL file, section 4; posix-rename is with RENAME. */
import { string, types, uint32, uint64 } from '../packet-client.js'
import { all, check, withSymlinks, type Section } from './check.js'
import { attributes, type Ground } from './ground.js'

const announced = [
  'posix-rename@openssh.com',
  'statvfs@openssh.com',
  'fstatvfs@openssh.com',
  'hardlink@openssh.com',
  'fsync@openssh.com',
  'lsetstat@openssh.com',
  'limits@openssh.com',
  'expand-path@openssh.com',
  'copy-data',
  'home-directory',
  'users-groups-by-id@openssh.com',
]

const expand = (ground: Ground, text: string) => ground.extended('expand-path@openssh.com', string(text))
const home = (ground: Ground, user: string) => ground.extended('home-directory', string(user))
const lsetstat = (ground: Ground, name: string, to: Buffer) =>
  ground.extended('lsetstat@openssh.com', ground.at(name), to)

/** Attributes of a symlink itself, not of its target. */
async function ownTime(ground: Ground, name: string): Promise<number | string> {
  const found = await ground.attributes(name, types.lstat)
  return typeof found === 'string' ? found : found.modified
}

/** The eleven numbers of a statvfs response. */
async function numbers(ground: Ground, extension: string, of: Buffer): Promise<readonly number[] | string> {
  const { type, body } = await ground.client.extended(extension, of)
  if (type !== 201) return ground.extended(extension, of)
  return Array.from({ length: body.length / 8 }, (_, at) => Number(body.readBigUInt64BE(at * 8)))
}

async function makesSense(asked: Promise<readonly number[] | string>): Promise<string> {
  const told = await asked
  if (typeof told === 'string') return told
  const [blockSize = 0, unit = 0, blocks = 0, free = 0, available = 0] = told
  return String(told.length === 11 && blockSize > 0 && unit > 0 && blocks >= free && free >= available && available > 0)
}

async function namesOf(ground: Ground, users: readonly number[], groups: readonly number[]): Promise<string> {
  const list = (ids: readonly number[]) => string(Buffer.concat(ids.map(uint32)))
  const { type, body } = await ground.client.extended('users-groups-by-id@openssh.com', list(users), list(groups))
  if (type !== 201) return `packet ${type}`
  const texts = (bytes: Buffer) => {
    const found: string[] = []
    for (let at = 0; at < bytes.length; at += 4 + bytes.readUInt32BE(at)) {
      found.push(bytes.subarray(at + 4, at + 4 + bytes.readUInt32BE(at)).toString())
    }
    return found
  }
  const first = body.readUInt32BE(0)
  const second = body.subarray(4 + first)
  const told = [texts(body.subarray(4, 4 + first)), texts(second.subarray(4))]
  return told.map((each) => each.map((name) => (name === '' ? 'nobody' : 'somebody')).join(' ')).join(', ')
}

export const extensionsSection: Section = {
  title: 'Extensions (PROTOCOL 4)',
  checks: [
    check('VERSION announces the extensions', 'all of them', async (ground) => {
      const version = (await (await ground.unbegun()).start()).toString('latin1')
      const missing = announced.filter((name) => !version.includes(name))
      return missing.length === 0 ? 'all of them' : `not ${missing.join(' ')}`
    }),
    check('An extension that nobody knows', 'OP_UNSUPPORTED', (ground) => ground.extended('nothing@example.org')),
    check('An extension without a name', 'OP_UNSUPPORTED', (ground) => ground.extended('')),
    check('hardlink to a file', 'OK, "abc"', async (ground) => {
      await ground.file('file', 'abc')
      return all(await ground.hardLink('file', 'other'), ground.content('other'))
    }),
    withSymlinks('hardlink shares what is written', '"xbc"', async (ground) => {
      await ground.file('file', 'abc')
      await ground.hardLink('file', 'other')
      const handle = await ground.open('file', 'WRITE')
      await ground.write(handle, 0, 'x')
      await ground.close(handle)
      return ground.content('other')
    }),
    withSymlinks('hardlink to a missing name', 'NO_SUCH_FILE', (ground) => ground.hardLink('none', 'other')),
    withSymlinks('hardlink over a file', 'FAILURE', async (ground) => {
      await ground.file('file')
      await ground.file('other')
      return ground.hardLink('file', 'other')
    }),
    withSymlinks('hardlink to a folder', 'PERMISSION_DENIED', async (ground) => {
      await ground.folders('folder')
      return ground.hardLink('folder', 'other')
    }),
    withSymlinks('hardlink in a missing folder', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('file')
      return ground.hardLink('file', 'none/other')
    }),
    check('fsync of a file that is written', 'OK', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      void ground.write(handle, 0, 'abc')
      return ground.extended('fsync@openssh.com', string(handle))
    }),
    check('fsync of a file that is read', 'OK', async (ground) => {
      await ground.file('file', 'abc')
      return ground.extended('fsync@openssh.com', string(await ground.open('file', 'READ')))
    }),
    check('fsync of a folder', 'NO_SUCH_FILE', async (ground) =>
      ground.extended('fsync@openssh.com', string(await ground.openFolder())),
    ),
    check('statvfs of a folder', 'true', (ground) => makesSense(numbers(ground, 'statvfs@openssh.com', ground.at()))),
    check('statvfs of a file', 'true', async (ground) => {
      await ground.file('file')
      return makesSense(numbers(ground, 'statvfs@openssh.com', ground.at('file')))
    }),
    check('statvfs of a missing name', 'NO_SUCH_FILE', (ground) =>
      ground.extended('statvfs@openssh.com', ground.at('none')),
    ),
    check('fstatvfs of a file', 'true', async (ground) => {
      await ground.file('file')
      const handle = await ground.open('file', 'READ')
      return makesSense(numbers(ground, 'fstatvfs@openssh.com', string(handle)))
    }),
    check('fstatvfs of a folder', 'FAILURE', async (ground) =>
      makesSense(numbers(ground, 'fstatvfs@openssh.com', string(await ground.openFolder()))),
    ),
    check('lsetstat of a file', 'OK, 600, 1000000000', async (ground) => {
      await ground.file('file')
      const told = await lsetstat(ground, 'file', attributes({ mode: 0o600, times: 1_000_000_000 }))
      return all(told, ground.mode('file'), ground.modified('file'))
    }),
    withSymlinks('lsetstat of times of a symlink leaves its target', 'OK, true', async (ground) => {
      await ground.file('file')
      await ground.symlink('file', 'link')
      const told = await lsetstat(ground, 'link', attributes({ times: 1_000_000_000 }))
      return all(told, (await ground.modified('file')) !== 1_000_000_000)
    }),
    withSymlinks(
      'lsetstat of times of a symlink is of the symlink itself',
      'OK, 1000000000, 2000000000',
      async (ground) => {
        await ground.file('file')
        await ground.setstat('file', attributes({ times: 2_000_000_000 }))
        await ground.symlink('file', 'link')
        const told = await lsetstat(ground, 'link', attributes({ times: 1_000_000_000 }))
        return all(told, ownTime(ground, 'link'), ground.modified('file'))
      },
    ),
    withSymlinks('lsetstat of times of a symlink that leads nowhere', 'OK, 1000000000', async (ground) => {
      await ground.symlink('none', 'link')
      return all(await lsetstat(ground, 'link', attributes({ times: 1_000_000_000 })), ownTime(ground, 'link'))
    }),
    withSymlinks('setstat of times of a symlink is of its target', 'OK, false, 1000000000', async (ground) => {
      await ground.file('file')
      await ground.symlink('file', 'link')
      const told = await ground.setstat('link', attributes({ times: 1_000_000_000 }))
      return all(told, (await ownTime(ground, 'link')) === 1_000_000_000, ground.modified('file'))
    }),
    withSymlinks('lsetstat of the mode of a symlink', 'FAILURE, 644', async (ground) => {
      await ground.file('file')
      await ground.symlink('file', 'link')
      return all(await lsetstat(ground, 'link', attributes({ mode: 0o600 })), ground.mode('file'))
    }),
    check('lsetstat of a size', 'BAD_MESSAGE, "abc"', async (ground) => {
      await ground.file('file', 'abc')
      return all(await lsetstat(ground, 'file', attributes({ size: 1 })), ground.content('file'))
    }),
    check('lsetstat of a missing name', 'NO_SUCH_FILE', (ground) =>
      lsetstat(ground, 'none', attributes({ mode: 0o600 })),
    ),
    check('limits', '262144 261120 261120, true', async (ground) => {
      const told = await numbers(ground, 'limits@openssh.com', Buffer.alloc(0))
      return typeof told === 'string' ? told : all(told.slice(0, 3).join(' '), Number(told[3]) > 0)
    }),
    check('expand-path of a path', '…', (ground) => expand(ground, ground.path())),
    check('expand-path of a tilde is where a session starts', 'true', async (ground) =>
      String((await expand(ground, '~')) === (await ground.realpath('.'))),
    ),
    check('expand-path below a tilde', 'true', async (ground) => {
      const start = await ground.realpath('.')
      return String((await expand(ground, '~/name')) === `${start === '/' ? '' : start}/name`)
    }),
    check('expand-path of a relative path', 'true', async (ground) => {
      const start = await ground.realpath('.')
      return String((await expand(ground, 'name')) === `${start === '/' ? '' : start}/name`)
    }),
    check('expand-path of a user who is not there', 'NO_SUCH_FILE', (ground) => expand(ground, '~nobody at all/x')),
    check('home-directory of an empty name', 'FAILURE', async (ground) => {
      const told = await home(ground, '')
      return told.startsWith('/') ? 'NAME' : told
    }),
    check('home-directory of a user who is not there', 'FAILURE', (ground) => home(ground, 'nobody at all')),
    check('users-groups-by-id of the user', 'somebody, somebody', async (ground) => {
      const { body } = await ground.client.ask(types.lstat, ground.at())
      return namesOf(ground, [body.readUInt32BE(12)], [body.readUInt32BE(16)])
    }),
    check('users-groups-by-id of others', 'nobody nobody, nobody', (ground) =>
      namesOf(ground, [4_000_000_001, 4_000_000_002], [4_000_000_001]),
    ),
    check('users-groups-by-id of nobody', ', ', (ground) => namesOf(ground, [], [])),
  ],
}

interface Copy {
  readonly content?: string
  readonly from: number
  readonly length: number
  readonly to: number
  readonly over?: string
}

/** Runs copy-data from one file to another. Resolves to the status and the resulting content. */
async function copied(ground: Ground, { content = '0123456789', from, length, to, over = '' }: Copy): Promise<string> {
  await ground.file('source', content)
  await ground.file('target', over)
  const source = await ground.open('source', 'READ')
  const target = await ground.open('target', 'WRITE')
  const told = await copyData(ground, source, from, length, target, to)
  await ground.close(target)
  return all(told, ground.content('target'))
}

function copyData(ground: Ground, source: Buffer, from: number, length: number, target: Buffer, to: number) {
  return ground.extended('copy-data', string(source), uint64(from), uint64(length), string(target), uint64(to))
}

export const copying: Section = {
  title: 'copy-data (draft-ietf-secsh-filexfer-extensions 7)',
  checks: [
    check('copy-data of a part', 'OK, "234"', (ground) => copied(ground, { from: 2, length: 3, to: 0 })),
    check('copy-data to an offset', 'OK, "ab234fgh"', (ground) =>
      copied(ground, { from: 2, length: 3, to: 2, over: 'abcdefgh' }),
    ),
    check('copy-data of no length goes to the end', 'OK, "456789"', (ground) =>
      copied(ground, { from: 4, length: 0, to: 0 }),
    ),
    check('copy-data over the end copies what is there', 'OK, "89"', (ground) =>
      copied(ground, { from: 8, length: 100, to: 0 }),
    ),
    check('copy-data from after the end', 'OK, ""', (ground) => copied(ground, { from: 100, length: 5, to: 0 })),
    check('copy-data from after the end to the end', 'OK, ""', (ground) =>
      copied(ground, { from: 100, length: 0, to: 0 }),
    ),
    check('copy-data of an empty file', 'OK, ""', (ground) =>
      copied(ground, { content: '', from: 0, length: 0, to: 0 }),
    ),
    check('copy-data to after the end leaves zeros', 'OK, "\\u0000\\u000001"', (ground) =>
      copied(ground, { from: 0, length: 2, to: 2 }),
    ),
    check('copy-data of a large file', 'OK, 3000000', async (ground) => {
      await ground.file('source', Buffer.alloc(3_000_000, 'c'))
      const target = await ground.open('target', 'WRITE CREAT TRUNC')
      const told = await copyData(ground, await ground.open('source', 'READ'), 0, 0, target, 0)
      await ground.close(target)
      return all(told, ground.size('target'))
    }),
    check('copy-data into a new file', 'OK, "0123"', async (ground) => {
      await ground.file('source', '0123')
      const target = await ground.open('target', 'WRITE CREAT EXCL')
      const told = await copyData(ground, await ground.open('source', 'READ'), 0, 0, target, 0)
      await ground.close(target)
      return all(told, ground.content('target'))
    }),
    check('copy-data within one file by two handles that do not overlap', 'FAILURE, "012345"', async (ground) => {
      await ground.file('file', '012345')
      const target = await ground.open('file', 'WRITE')
      const told = await copyData(ground, await ground.open('file', 'READ'), 0, 3, target, 6)
      await ground.close(target)
      return all(told, ground.content('file'))
    }),
    check('copy-data by one handle', 'FAILURE', async (ground) => {
      await ground.file('file', '012345')
      const handle = await ground.open('file', 'READ WRITE')
      return copyData(ground, handle, 0, 3, handle, 6)
    }),
    check('copy-data from a handle that writes alone', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('source', 'abc')
      await ground.file('target')
      return copyData(ground, await ground.open('source', 'WRITE'), 0, 0, await ground.open('target', 'WRITE'), 0)
    }),
    check('copy-data to a handle that reads alone', 'NO_SUCH_FILE', async (ground) => {
      await ground.file('source', 'abc')
      await ground.file('target')
      return copyData(ground, await ground.open('source', 'READ'), 0, 0, await ground.open('target', 'READ'), 0)
    }),
    check('copy-data with a handle of nobody', 'FAILURE', async (ground) => {
      await ground.file('source', 'abc')
      return copyData(ground, await ground.open('source', 'READ'), 0, 0, Buffer.from('nobody'), 0)
    }),
    check('copy-data behind WRITEs copies what they wrote', 'OK, "abc"', async (ground) => {
      const source = await ground.open('source', 'READ WRITE CREAT TRUNC')
      const target = await ground.open('target', 'WRITE CREAT TRUNC')
      void ground.write(source, 0, 'abc')
      const told = await copyData(ground, source, 0, 0, target, 0)
      await ground.close(target)
      return all(told, ground.content('target'))
    }),
  ],
}
