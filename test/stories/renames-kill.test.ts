/**
 * The daemon is killed during renames by every protocol and at the time of a response, repeatedly, of files and folders
 * with and without properties: each has one of its names, complete content and its properties; a rename with a success
 * response is done.
 */
import { randomBytes, randomInt } from 'node:crypto'
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { startDaemon, storageStarted, type Daemon } from '../gateway.js'
import { connectTo } from '../store-location.js'
import { connectAll, type ProtocolClient, type ProtocolName } from './protocols.js'

const rounds = Number(process.env.TIDEGATE_KILL_ROUNDS ?? 10)

/** A file or folder with two names. Its property is set on itself, or on a file in it. */
interface Renamed {
  readonly names: readonly [string, string]
  /** The protocol that renames it. */
  readonly by: ProtocolName
  readonly inner: string
  /** The property; undefined: there is none. */
  readonly property: string | undefined
  /** Every rename replaces another file, over WebDAV. */
  readonly replaces: boolean
}

const protocols = ['http', 'webdav', 'sftp'] as const
const things: readonly Renamed[] = [
  ...protocols.map((by) => thing(`plain-${by}`, { by })),
  ...protocols.map((by) => thing(`carrying-${by}`, { by, property: randomBytes(8).toString('hex') })),
  thing('plain-folder', { inner: '/file' }),
  thing('carrying-folder', { inner: '/file', property: 'of a file in a folder' }),
  thing('plain-over', { replaces: true }),
  thing('carrying-over', { replaces: true, property: 'of a file that replaces' }),
]

function thing(name: string, fields: Partial<Renamed> = {}): Renamed {
  const names = [`${name}.one`, `${name}.other`] as const
  return { names, by: 'webdav', inner: '', property: undefined, replaces: false, ...fields }
}

function davOf(daemon: Daemon) {
  const base = daemon.davUrl.replace(/\/$/, '')
  const Authorization = `Basic ${Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')}`
  const send = async (method: string, path: string, headers: Record<string, string> = {}, body?: string) => {
    const response = await fetch(`${base}/${path}`, {
      method,
      headers: { Authorization, ...headers },
      ...(body !== undefined && { body }),
    })
    return { status: response.status, text: await response.text() }
  }
  return {
    send,
    move: (from: string, to: string) => send('MOVE', from, { Destination: `${base}/${to}`, Overwrite: 'T' }),
    setProperty: (path: string, value: string) =>
      send(
        'PROPPATCH',
        path,
        {},
        `<propertyupdate xmlns="DAV:"><set><prop><x xmlns="urn:x">${value}</x></prop></set></propertyupdate>`,
      ),
    property: async (path: string) => {
      const names = '<propfind xmlns="DAV:"><prop><x xmlns="urn:x"/></prop></propfind>'
      const { text } = await send('PROPFIND', path, { Depth: '0' }, names)
      return />([^<]+)<\/[^>]*\bx>/.exec(text)?.[1]
    },
  }
}

interface Renaming {
  readonly daemon: Daemon
  readonly clients: ReadonlyMap<ProtocolName, ProtocolClient>
  /** A signal that aborts when the daemon is killed. */
  readonly killing: AbortSignal
  readonly answered: () => void
}

/**
 * Renames it to and fro until the daemon is killed. Resolves to its possible names: one if the last rename had a
 * response.
 */
async function renameUntilKilled(
  { names, by, inner, replaces }: Renamed,
  at: number,
  { daemon, clients, killing, answered }: Renaming,
): Promise<readonly string[]> {
  const dav = davOf(daemon)
  let possible: readonly string[] = names.slice(at, at + 1)
  try {
    for (let turn = at; !killing.aborted; turn++) {
      const [from, to] = [names[turn % 2], names[(turn + 1) % 2]] as [string, string]
      if (replaces) {
        await dav.send('PUT', to + inner, {}, 'what gives its place')
        await dav.setProperty(to + inner, 'of what gives its place')
      }
      possible = names
      const answer = replaces ? (await dav.move(from, to)).status : await clients.get(by)?.rename(`/${from}`, `/${to}`)
      if (answer !== 'done' && answer !== 201 && answer !== 204) throw new Error(`${from}: ${answer}`)
      possible = [to]
      answered()
    }
  } catch (error) {
    // A killed daemon breaks the connection. A running one must not reject a rename.
    if (!killing.aborted) throw error
  }
  return possible
}

void t.test(
  'after a kill, each entry has one name and its properties, and acknowledged renames are done',
  { timeout: 4 * 3_600_000 },
  async (t) => {
    let daemon = await startDaemon(t)
    await storageStarted(daemon)
    const files = join(daemon.dataFolder, 'files')
    const contents = new Map<Renamed, string>()
    for (const one of things) {
      const content = randomBytes(5000).toString('hex')
      contents.set(one, content)
      if (one.inner !== '') await mkdir(join(files, one.names[0]))
      await writeFile(join(files, one.names[0] + one.inner), content)
      if (one.property !== undefined) await davOf(daemon).setProperty(one.names[0] + one.inner, one.property)
    }
    for (let round = 0; round < rounds; round++) {
      const present = new Set(await readdir(files))
      const connected = await connectAll(daemon, { username: 'admin', password: daemon.adminPassword })
      const clients = new Map(connected.map((client) => [client.protocol, client]))
      const killing = new AbortController()
      const kill = () => {
        killing.abort()
        return daemon.kill()
      }
      let killAtAnswer = false
      const answered = () => {
        if (killAtAnswer) void kill()
      }
      const renaming = Promise.all(
        things.map((one) =>
          renameUntilKilled(one, present.has(one.names[0]) ? 0 : 1, {
            daemon,
            clients,
            killing: killing.signal,
            answered,
          }),
        ),
      )
      const killAt = randomInt(600)
      await Promise.race([wait(killAt), renaming])
      // In every second round by the handler of the next response.
      killAtAnswer = round % 2 === 1
      if (!killAtAnswer) await kill()
      const possible = await renaming
      await kill()
      daemon = await startDaemon(t, { dataFolder: daemon.dataFolder, adminPassword: daemon.adminPassword })
      await storageStarted(daemon)
      const dav = davOf(daemon)
      for (const [index, one] of things.entries()) {
        const where = `round ${round}, killed after ${killAt} ms${killAtAnswer ? ' at an answer' : ''}: ${one.names[0]}`
        const found: string[] = []
        for (const name of one.names) {
          const content = await readFile(join(files, name + one.inner), 'utf8').catch(() => undefined)
          if (content === contents.get(one)) found.push(name)
          else if (content !== undefined) {
            t.ok(one.replaces && content === 'what gives its place', `${where}: no other entry exists`)
          }
        }
        t.equal(found.length, 1, `${where}: it has one of its names and its whole content`)
        for (const name of found) {
          t.ok(possible[index]?.includes(name), `${where}: an acknowledged rename is done`)
          t.equal(await dav.property(name + one.inner), one.property, `${where}: it has its properties`)
        }
        // The next round begins with one file.
        for (const name of one.names) if (!found.includes(name) && one.replaces) await dav.send('DELETE', name)
      }
      t.same(
        (await readdir(files)).filter((name) => name.includes('replaced') || name.includes('backup')),
        [],
        'no other files are left',
      )
    }
    await daemon.stop()
    const database = await connectTo(daemon.dataFolder)
    t.same(await database('intents').select(), [], 'no intent is left')
    const recorded: readonly { path: string }[] = await database('properties').select('path')
    const expected = things.filter(({ property }) => property !== undefined).length
    t.equal(recorded.length, expected, 'no other path has properties')
    await database.destroy()
  },
)

void t.test('an acknowledged MKCOL or PROPPATCH is done, even if the daemon is killed at that time', async (t) => {
  let daemon = await startDaemon(t)
  await storageStarted(daemon)
  const killedAtAnswer = async <Answer>(answer: Promise<Answer>) => {
    const answered = await answer
    await daemon.kill()
    daemon = await startDaemon(t, { dataFolder: daemon.dataFolder, adminPassword: daemon.adminPassword })
    await storageStarted(daemon)
    return answered
  }
  t.match(await killedAtAnswer(davOf(daemon).send('MKCOL', 'folder')), { status: 201 })
  t.ok((await stat(join(daemon.dataFolder, 'files', 'folder'))).isDirectory(), 'the folder exists')
  const set = await killedAtAnswer(davOf(daemon).setProperty('folder', 'a value'))
  t.match(set, { status: 207, text: 'HTTP/1.1 200' })
  t.equal(await davOf(daemon).property('folder'), 'a value', 'the property is set')
  await daemon.stop()
})
