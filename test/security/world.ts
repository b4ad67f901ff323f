/**
 * A tree with one user who has a base folder, and with files in and around it that the user may not access. The content
 * of these files is marked: no response may contain a mark.
 */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { Client, type ClientChannel } from 'ssh2'
import type { Test } from 'tap'
import { allPermissions, permissionBits, Principal, type Permission } from '../../src/accounts/principal.js'
import { asPath, childOf, isWithin, root } from '../../src/base/path.js'
import type { FolderRule } from '../../src/database/tables/rules.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import { startGateway, type RunningGateway, type RunOptions } from '../gateway.js'
import { packetClient, PacketClient } from '../protocols/sftp/packet-client.js'
import { ruleRow } from '../database/store-rows.js'
import { http } from '../../protocols/http/index.js'

/** Content of all files that the user may not access. */
export const mark = 'MARKED-AS-NOT-YOURS'
/** The unique size of these files, to detect responses that reveal sizes. */
const markedSize = 48_611
const marked = Buffer.alloc(markedSize, mark)

/** Texts that reveal the marked files: their content, their size, and names that only a listing contains. */
export const giveaways = [mark, String(markedSize), 'untold']

export const everyPermission = Object.keys(permissionBits) as Permission[]
/** Permissions that bypass folder rules, have no effect, or are for more than the files themselves. */
const others: readonly Permission[] = [
  ...(['seeHidden', 'skipPasswords', 'readArchives', 'decompress'] as const),
  ...(['offlineDownload', 'share', 'customShareId'] as const),
]
/** All permissions to read and change files by all protocols, and none that bypasses folder rules. */
export const busy = everyPermission.filter((permission) => !others.includes(permission))

/** Folders that the user may not access, by their paths for the user: each contains `there.txt`, and no `gone!.txt`. */
export const closedFolders = ['/locked', '/theirs', '/veiled'] as const

export interface World extends RunningGateway {
  /** The tree without restrictions. */
  readonly all: VirtualFs
  /** All files that the user may not access, with their content. It must be equal before and after all requests. */
  untouched(): Promise<Readonly<Record<string, string>>>
  /** Files below a folder that are copies of marked files. */
  loot(folder: string): Promise<readonly string[]>
}

export async function addRule({ gateway }: RunningGateway, path: string, rule: Partial<FolderRule>): Promise<void> {
  await gateway.rules.create(ruleRow({ ...rule, path: asPath(path) }))
}

export const userPassword = 'a good password'

export async function addUser(
  { gateway }: RunningGateway,
  username: string,
  permissions: readonly Permission[],
  base = '/',
): Promise<number> {
  const permission = permissions.reduce((sum, each) => sum | permissionBits[each], 0)
  await gateway.accounts.users.create({
    username,
    password: userPassword,
    basePath: base,
    role: 'general',
    permission,
    disabled: false,
    ssoId: '',
  })
  return gateway.accounts.users.byName(username)?.id ?? 0
}

export async function store(fs: VirtualFs, path: string, content: string | Buffer): Promise<void> {
  const bytes = Buffer.from(content as string)
  await fs.write(
    asPath(path),
    { size: bytes.length, rereadable: true, read: async () => Readable.from([bytes], { objectMode: false }) },
    { parents: true },
  )
}

/**
 * `/team` is the base folder of `mallory`. Outside: a sibling with the same prefix, and a file above. Inside: a folder
 * with a password, one for other users, and hidden entries.
 */
export async function startWorld(t: Test, options: RunOptions = {}): Promise<World> {
  const running = await startGateway(t, options)
  const { gateway } = running
  const all = gateway.as(unbound())
  await restore({ all })
  await store(all, '/team/open/sub/file', 'mine')
  await addRule(running, '/team', { hide: '^veiled', hideSub: true })
  await addRule(running, '/team/locked', { password: 'sesame', passwordSub: true })
  await addRule(running, '/team/theirs', { readUsers: [1], readUsersSub: true, writeUsers: [1], writeUsersSub: true })
  await addUser(running, 'mallory', busy, '/team')
  const untouched = async () => {
    const found: Record<string, string> = {}
    for (const folder of ['/', '/team-secret', ...closedFolders.map((each) => `/team${each}`)]) {
      const { entries } = await all.list(asPath(folder))
      for (const { name, kind, size, modified } of entries) {
        const at = childOf(asPath(folder), name)
        if (kind === 'folder') found[at] = 'folder'
        else
          found[at] = `${size} ${modified.toISOString()} ${(await buffer(await all.read(at))).toString().slice(0, 40)}`
      }
    }
    const hidden = await all.stat(asPath('/team/veiled.txt'))
    for (const { path } of gateway.locks.list()) {
      if (!isWithin(asPath('/team'), path) || closedFolders.some((each) => isWithin(asPath(`/team${each}`), path))) {
        found[`lock on ${path}`] = 'not theirs'
      }
    }
    return { ...found, '/team/veiled.txt': `${hidden.size} ${hidden.modified.toISOString()}` }
  }
  const loot = async (folder: string): Promise<readonly string[]> => {
    const found: string[] = []
    for (const { name, kind, size } of (await all.list(asPath(folder))).entries) {
      const at = childOf(asPath(folder), name)
      if (kind === 'folder') found.push(...(await loot(at)))
      else if (size === markedSize) found.push(at)
    }
    return found
  }
  return { ...running, all, untouched, loot }
}

/** Restores all files that the user may not access. */
export async function restore({ all }: Pick<World, 'all'>): Promise<void> {
  const closed = [
    '/team-secret/there.txt',
    '/team-secret/untold.txt',
    '/there.txt',
    ...closedFolders.flatMap((folder) => [`/team${folder}/there.txt`, `/team${folder}/untold.txt`]),
    '/team/veiled.txt',
  ]
  for (const path of closed) await store(all, path, marked)
}

/** A principal without restrictions. */
export function unbound(): Principal {
  return new Principal({
    userId: 1,
    username: 'admin',
    role: 'admin',
    permissions: allPermissions,
    base: root,
    protocol: http,
    signal: new AbortController().signal,
  })
}

export interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** Sends a request target unchanged, except for characters that no request can contain, which are percent-encoded. */
export function send(
  url: string,
  method: string,
  target: string,
  headers: Readonly<Record<string, string>> = {},
  body?: string | Buffer,
): Promise<Reply> {
  const { hostname, port } = new URL(url)
  const path = target.replace(/[^\u0021-\u007e]/gu, (character) => escaped(character))
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ hostname, port, method, path, headers, agent: false }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: Buffer.concat(chunks).toString('latin1'),
        }),
      )
    })
    sent.on('error', reject)
    // With a text as body, Node would encode the bytes of the headers differently.
    sent.end(body === undefined ? undefined : Buffer.from(body as string))
  })
}

function escaped(character: string): string {
  return [...Buffer.from(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
}

/** Sends raw bytes. Resolves to everything received until the connection ends or is silent for a while. */
export function sendRaw(url: string, bytes: string | Buffer, patience = 1000): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    const chunks: Buffer[] = []
    socket.setTimeout(patience, () => socket.destroy())
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('error', () => undefined)
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('latin1')))
  })
}

export interface Envelope {
  readonly code: number
  readonly message: string
  readonly data: unknown
}

export async function post(url: string, path: string, body: unknown, token = ''): Promise<Envelope> {
  const headers = { 'content-type': 'application/json', ...(token === '' ? {} : { authorization: token }) }
  const { text } = await send(url, 'POST', path, headers, typeof body === 'string' ? body : JSON.stringify(body))
  return JSON.parse(Buffer.from(text, 'latin1').toString()) as Envelope
}

export async function signIn(
  { url }: { readonly url: string },
  username: string,
  password = userPassword,
): Promise<string> {
  const { data, message } = await post(url, '/api/auth/login', { username, password })
  if (data === null) throw new Error(message)
  return (data as { token: string }).token
}

export function basic(username: string, password = userPassword): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

/** A session of SFTP packets, and the connection under it. */
export async function packets(
  t: Test,
  { sftpPort }: Pick<RunningGateway, 'sftpPort'>,
  username: string,
  password = userPassword,
): Promise<PacketClient> {
  const client = new Client()
  t.teardown(() => client.end())
  const channel = await new Promise<ClientChannel>((resolve, reject) => {
    client.once('ready', () =>
      client.subsys('sftp', (error: Error | undefined, opened) => (error ? reject(error) : resolve(opened))),
    )
    client.on('error', reject).connect({ host: '127.0.0.1', port: sftpPort, username, password, ident: packetClient })
  })
  const session = new PacketClient(channel)
  await session.start()
  return session
}
