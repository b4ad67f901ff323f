/**
 * The daemon is killed in the middle of renames, again and again, of files and folders with and without properties: each is at one
 * of its names, whole, and its properties are with it.
 */
import { randomBytes, randomInt } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import knex from 'knex'
import t from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'

const rounds = Number(process.env.TIDEGATE_KILL_ROUNDS ?? 10)

/** A thing with two names, and what carries its property: itself, or a file in it. */
interface Renamed {
  readonly names: readonly [string, string]
  readonly inner: string
  /** Undefined: it has no property. */
  readonly property: string | undefined
  /** A file takes the place of this one by every rename. */
  readonly replaces: boolean
}

const things: readonly Renamed[] = [
  ...[0, 1, 2].map((index) => thing(`plain-${index}`)),
  ...[0, 1, 2].map((index) => thing(`carrying-${index}`, { property: randomBytes(8).toString('hex') })),
  thing('plain-folder', { inner: '/file' }),
  thing('carrying-folder', { inner: '/file', property: 'of a file in a folder' }),
  thing('plain-over', { replaces: true }),
  thing('carrying-over', { replaces: true, property: 'of a file that replaces' }),
]

function thing(name: string, fields: Partial<Renamed> = {}): Renamed {
  return { names: [`${name}.one`, `${name}.other`], inner: '', property: undefined, replaces: false, ...fields }
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

/** Renames it there and back until the daemon is gone. */
async function renameUntilKilled(daemon: Daemon, { names, inner, replaces }: Renamed, at: number): Promise<void> {
  const dav = davOf(daemon)
  try {
    for (let turn = at; ; turn++) {
      const [from, to] = [names[turn % 2], names[(turn + 1) % 2]] as [string, string]
      if (replaces) {
        await dav.send('PUT', to + inner, {}, 'what gives its place')
        await dav.setProperty(to + inner, 'of what gives its place')
      }
      await dav.move(from, to)
    }
  } catch {
    // The connection broke.
  }
}

void t.test(
  'after a kill during renames, each entry has one name and its properties',
  { timeout: 4 * 3_600_000 },
  async (t) => {
    let daemon = await startDaemon(t)
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
      const renaming = things.map((one) => renameUntilKilled(daemon, one, present.has(one.names[0]) ? 0 : 1))
      const killAt = randomInt(600)
      await wait(killAt)
      await daemon.kill()
      await Promise.all(renaming)
      daemon = await startDaemon(t, { dataFolder: daemon.dataFolder, adminPassword: daemon.adminPassword })
      const dav = davOf(daemon)
      for (const one of things) {
        const where = `round ${round}, killed after ${killAt} ms: ${one.names[0]}`
        const found: string[] = []
        for (const name of one.names) {
          const content = await readFile(join(files, name + one.inner), 'utf8').catch(() => undefined)
          if (content === contents.get(one)) found.push(name)
          else if (content !== undefined) {
            t.ok(one.replaces && content === 'what gives its place', `${where}: nothing else is there`)
          }
        }
        t.equal(found.length, 1, `${where}: it is at one of its names, whole`)
        for (const name of found) {
          t.equal(await dav.property(name + one.inner), one.property, `${where}: its properties are with it`)
        }
        // The next round begins with one file.
        for (const name of one.names) if (!found.includes(name) && one.replaces) await dav.send('DELETE', name)
      }
      t.same(
        (await readdir(files)).filter((name) => name.includes('replaced') || name.includes('backup')),
        [],
        'nothing is left beside them',
      )
    }
    await daemon.stop()
    const connection = { filename: join(daemon.dataFolder, 'data.db') }
    const database = knex({ client: 'sqlite3', connection, useNullAsDefault: true })
    t.same(await database('intents').select(), [], 'no rename waits to be followed')
    const recorded: readonly { path: string }[] = await database('properties').select('path')
    const expected = things.filter(({ property }) => property !== undefined).length
    t.equal(recorded.length, expected, 'and nothing else has properties')
    await database.destroy()
  },
)
