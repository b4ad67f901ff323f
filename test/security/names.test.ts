/** Names of new entries, in every field of every protocol that takes one. */
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { startGateway } from '../gateway.js'
import { connect } from '../stories/task-client.js'
import { connectAll } from '../stories/protocols.js'
import { bait, everyField } from './fields.js'
import { startWorld, store, type World } from './world.js'

const making =
  /mkdir path|File-Path|^PUT|^MKCOL|Destination|^LOCK|OPEN to (replace|create)|MKDIR|(RENAME|posix-rename|hardlink) to|SYMLINK at/

/** Fields in which a client must escape characters that are not allowed in a URL or a header. */
const needsEscapes = /^(PUT|MKCOL|LOCK) target|Destination|unescaped/

async function makers(t: Tap, world: World) {
  const fields = await everyField(t, world)
  return fields
    .filter(({ kind, title }) => kind === 'new' || (kind === 'path' && making.test(title)))
    .map((field) => ({
      ...field,
      make: (name: string) =>
        field.say(field.kind === 'new' || field.title.includes('below a folder') ? name : `/open/${name}`),
    }))
}
type Tap = Parameters<typeof startWorld>[0]

async function members({ all }: World): Promise<readonly string[]> {
  const { entries } = await all.list(asPath('/team/open'))
  return entries.map(({ name }) => name).sort()
}

async function ready(world: World): Promise<void> {
  for (const { token } of world.gateway.locks.list()) await world.gateway.locks.break(token)
  for (const name of await members(world)) await world.all.remove(asPath(`/team/open/${name}`))
  await store(world.all, `/team${bait}`, 'mine')
}

const refused: Readonly<Record<string, readonly string[]>> = {
  'a new name contains no separator of any system': ['a\\b', '\\a', 'a\\', '..\\a'],
  'a new name contains no control character, so that it cannot inject lines into headers, logs or listings': [
    'a\0b',
    'a\r\nX-Evil: 1',
    'a\nb',
    'a\tb',
    'a\u001b[31mb',
    'a\u007fb',
    'a\u0080b',
    'a\u0085b',
    'a\u009b31mb',
  ],
  'a new name does not contain the mark of bytes that could not be decoded, because no listing shows such names': [
    '\ufffd',
    'caf\ufffd.txt',
  ],
  'a new name has at most 255 bytes': ['x'.repeat(256), '\u4e16'.repeat(86)],
  'a new name must not be reserved': ['.tidegate-staging', '.TIDEGATE-backup-x'],
}

void t.test('every field of every protocol rejects invalid names', async (t) => {
  const world = await startWorld(t)
  for (const field of await makers(t, world)) {
    for (const [cause, names] of Object.entries(refused)) {
      for (const name of names) {
        await ready(world)
        const answer = await field.make(name)
        t.same(await members(world), ['bait'], `${cause}: ${field.title} of ${JSON.stringify(name.slice(0, 20))}`, {
          answer,
        })
      }
    }
  }
})

void t.test('every field of every protocol stores valid names unchanged', async (t) => {
  const world = await startWorld(t)
  // Composed and decomposed forms are two names, as on the disk. Real names contain directional characters.
  const allowed = [
    'caf\u00e9',
    'cafe\u0301',
    'CAF\u00c9',
    'a%2e%2eb',
    'a..b',
    'a;b',
    'a?b#c',
    ' a ',
    'a.',
    '\u202eab',
    '$1 $& ${x}',
  ]
  for (const field of await makers(t, world)) {
    for (const name of allowed) {
      await ready(world)
      const answer = await field.make(needsEscapes.test(field.title) ? encodeURIComponent(name) : name)
      const found = await members(world)
      t.ok(found.includes(name), `${field.title} of ${JSON.stringify(name)}`, { answer, found })
    }
  }
})

/** Characters of all kinds, of one to four bytes. */
const alphabet = Array.from(
  '.aZ ~%#?*:;"\'<&\\\t\u007f\u0085\u00a0\u00e9\u0130\u0301\u200b\u202e\u2028\u3000\u4e16\uac00\ud7a3\ue000\ufb01' +
    '\ufdd0\ufeff\ufffd\ufffe\uffff\u{1f600}\u{1fffe}\u{e0041}\u{10ffff}',
)

/** Names of several of these characters, the same in each run. */
function generatedNames(count: number): readonly string[] {
  let state = 1
  const next = (below: number) => (state = (state * 48_271) % 0x7fff_ffff) % below
  return Array.from({ length: count }, () =>
    Array.from({ length: 2 + next(5) }, () => alphabet[next(alphabet.length)]).join(''),
  )
}

void t.test('every name that a protocol accepts can be listed, renamed and removed', async (t) => {
  const running = await startGateway(t)
  const admin = await connect(running)
  await admin.post('/api/admin/storage/create', { mount_path: '/memory', driver: 'Memory', addition: '{}' })
  const accepted = ['cafe\u0301', ' ', 'a ', 'a.', '...', '\ufeffa', '\u00e9'.repeat(127), '\ufffe\uffff', 'a%']
  const refused = ['caf\ufffd', 'a\u0085', 'a\\b', '\u00e9'.repeat(128)]
  const some = [...accepted, ...refused]
  const pairs = alphabet.flatMap((each, at) => (at % 2 === 0 ? [each + (alphabet[at + 1] ?? '')] : []))
  const namesIn = { '/memory/folder': some, '/local': [...some, ...pairs, ...generatedNames(10)] }
  for (const [folder, names] of Object.entries(namesIn)) {
    for (const client of await connectAll(running, { username: 'admin', password: running.adminPassword })) {
      t.equal(await client.makeFolder(folder), 'done')
      for (const name of names) {
        const title = `${client.protocol} ${folder} ${encodeURIComponent(name)}`
        const [path, other] = [`${folder}/${name}`, `${folder}/other`]
        if ((await client.put(path, Buffer.from(name))) === 'done') {
          t.notOk(refused.includes(name), title)
          const found = [
            await client.names(folder),
            await client.rename(path, other),
            await client.rename(other, path),
            await client.get(path),
            await client.remove(path),
          ]
          t.same(found, [[name], 'done', 'done', Buffer.from(name), 'done'], title)
        } else {
          t.notOk(accepted.includes(name), title)
          t.not(await client.makeFolder(path), 'done', `${title} is no name of a folder`)
        }
        t.same(await client.names(folder), [], title)
      }
      t.equal(await client.remove(folder), 'done')
      await client.close()
    }
  }
})
