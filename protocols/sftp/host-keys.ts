/**
 * The SSH host keys. They are generated at the first run. The database has them, so that all daemons that share it show
 * the same keys; the data folder has copies, of which only the server's user can read the private keys.
 */
import { chown, mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import ssh2, { type ParsedKey } from 'ssh2'
import { parseKeyBlob, parseKeyLine } from '../../src/accounts/public-keys.js'
import { GatewayError } from '../../src/base/errors.js'
import type { Log } from '../../src/base/log.js'
import type { ProtocolSecrets } from '../../src/gateway/protocol-gateway.js'

interface KeyPair {
  /** The private key in OpenSSH's format. */
  readonly private: string
  /** A line of an authorized_keys file. */
  readonly public: string
}

const generate = promisify(ssh2.utils.generateKeyPair) as (
  type: 'ed25519' | 'rsa',
  options: { readonly bits?: number; readonly comment: string },
) => Promise<KeyPair>

/**
 * Generates a key pair. ssh2 drops the first byte of an ed25519 key if it is zero, once in 256 times
 * (mscdex/ssh2#1390): such a pair is discarded and generated again.
 */
export async function generateKeyPair(
  type: 'ed25519' | 'rsa',
  options: { bits?: number; comment: string },
): Promise<KeyPair> {
  for (;;) {
    const pair = await generate(type, options)
    if (isValid(pair)) return pair
  }
}

function isValid(pair: KeyPair): boolean {
  try {
    parseKeyLine(pair.public)
    return !(ssh2.utils.parseKey(pair.private) instanceof Error)
  } catch {
    return false
  }
}

/** `secret`: the name of the private key in the database. */
const kinds = [
  {
    file: 'ssh_host_ed25519_key',
    secret: 'SSH host key ed25519',
    type: 'ed25519',
    algorithm: 'ssh-ed25519',
    options: { comment: 'tidegate' },
  },
  {
    file: 'ssh_host_rsa_key',
    secret: 'SSH host key rsa',
    type: 'rsa',
    algorithm: 'ssh-rsa',
    options: { bits: 3072, comment: 'tidegate' },
  },
] as const
type Kind = (typeof kinds)[number]

/** The secrets of the database. */
interface HostKeySecrets extends ProtocolSecrets {
  replace(values: ReadonlyMap<string, string>): Promise<void>
}

interface HostKey {
  readonly kind: Kind
  /** The private key, in OpenSSH's format or as PEM. */
  readonly text: string
}

/**
 * The private keys of the database. A key that it lacks is taken from its file in `folder`, or generated; that begins
 * before `opening` has resolved, because generating an RSA key is slow. The files in `folder`, and the folder, are
 * created if they are missing; a file with another key is kept as a backup and replaced. Rejects with `invalid` if a
 * file that is needed has no usable key.
 */
export async function loadHostKeys(
  folder: string,
  opening: Promise<{ readonly secrets: ProtocolSecrets; readonly log: Pick<Log, 'warn'> }>,
): Promise<readonly string[]> {
  const candidates = kinds.map((kind) => ({ kind, candidate: candidateOf(folder, kind) }))
  // An error counts only where the candidate is needed.
  for (const { candidate } of candidates) candidate.catch(() => undefined)
  const { secrets, log } = await opening
  const keys = await Promise.all(
    candidates.map(async ({ kind, candidate }) => {
      const stored = await secrets.get(kind.secret)
      return { kind, text: stored ?? (await secrets.obtain(kind.secret, await candidate)) }
    }),
  )
  const kept = await writeCopies(folder, keys, new Date())
  if (kept.length > 0) {
    log.warn({ kept }, 'host keys in the data folder differed from those of the database, and were replaced')
  }
  return keys.map(({ text }) => text)
}

/**
 * The public keys of the database, each as a line of an authorized_keys file. Rejects with `not_found` if it has none.
 */
export async function publicHostKeys(secrets: Pick<HostKeySecrets, 'get'>): Promise<readonly string[]> {
  const keys = await Promise.all(kinds.map(({ secret }) => secrets.get(secret)))
  const lines = keys.filter((text) => text !== undefined).map(publicLine)
  if (lines.length === 0) {
    throw new GatewayError('not_found', {
      reason: 'there are no host keys yet: the daemon makes them at its first start',
    })
  }
  return lines
}

/**
 * Generates new keys of every kind, which servers use from their next start. The old ones are kept in `folder` as
 * backups, whose names end with the time. Resolves to the paths of these backups.
 */
export async function rotateHostKeys(
  secrets: HostKeySecrets,
  folder: string,
  now = new Date(),
): Promise<readonly string[]> {
  const keys = await Promise.all(
    kinds.map(async (kind) => ({ kind, text: (await generateKeyPair(kind.type, kind.options)).private })),
  )
  return replaceHostKeys(secrets, folder, keys, now)
}

/**
 * Takes the keys in `folder` into the database, in one transaction; servers use them from their next start. A key whose
 * file is missing is unchanged. `from`: where the keys are, if not in `folder`. Resolves to the paths of backups, as
 * `rotateHostKeys`. Rejects with `not_found` if `folder` has no key, and with `invalid` if a file has no usable key.
 */
export async function importHostKeys(
  secrets: HostKeySecrets,
  folder: string,
  now = new Date(),
  from = folder,
): Promise<readonly string[]> {
  const found = await Promise.all(kinds.map(async (kind) => ({ kind, text: await readKey(from, kind) })))
  const keys = found.flatMap(({ kind, text }) => (text === undefined ? [] : [{ kind, text }]))
  if (keys.length === 0) {
    const names = kinds.map(({ file }) => file).join(' and no ')
    throw new GatewayError('not_found', { reason: `there is no ${names} in ${from}` })
  }
  return replaceHostKeys(secrets, folder, keys, now)
}

/** Parses a private key. Throws `invalid` with a reason; `what` names the key in it. */
export function parseHostKey(text: string, what: string): ParsedKey {
  const parsed: unknown = ssh2.utils.parseKey(text)
  const key = (Array.isArray(parsed) ? parsed[0] : parsed) as ParsedKey | Error
  if (key instanceof Error)
    throw new GatewayError('invalid', { reason: `${what} is unusable: ${key.message}`, cause: key })
  if (!key.isPrivateKey()) throw new GatewayError('invalid', { reason: `${what} is unusable: it is no private key` })
  return key
}

async function candidateOf(folder: string, kind: Kind): Promise<string> {
  return (await readKey(folder, kind)) ?? (await generateKeyPair(kind.type, kind.options)).private
}

/** The validated content of the file of this kind; undefined if it does not exist. */
async function readKey(folder: string, { file, algorithm }: Kind): Promise<string | undefined> {
  const path = join(folder, file)
  const text = await readIfExists(path)
  if (text === undefined) return undefined
  const what = `the host key ${path}`
  const key = parseHostKey(text, what)
  if (key.type !== algorithm) {
    throw new GatewayError('invalid', { reason: `${what} is unusable: it is of type ${key.type}, not ${algorithm}` })
  }
  try {
    parseKeyBlob(key.getPublicSSH())
  } catch (error) {
    throw new GatewayError('invalid', { reason: `${what} is unusable: ${(error as Error).message}`, cause: error })
  }
  return text
}

/** Stores the keys in the database and in `folder`. Resolves to the paths of the backups of what they replace. */
async function replaceHostKeys(
  secrets: HostKeySecrets,
  folder: string,
  keys: readonly HostKey[],
  now: Date,
): Promise<readonly string[]> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const kept: string[] = []
  for (const { kind, text } of keys) {
    const file = join(folder, kind.file)
    const stored = await secrets.get(kind.secret)
    // A file with the stored key is kept below.
    if (stored === undefined || stored === text || stored === (await readIfExists(file))) continue
    kept.push(await keep(folder, file, { text: stored, mode: 0o600, now }))
  }
  await secrets.replace(new Map(keys.map(({ kind, text }) => [kind.secret, text])))
  return [...kept, ...(await writeCopies(folder, keys, now))]
}

/** Writes the files that are missing or have another key. Resolves to the paths of backups of the latter. */
async function writeCopies(folder: string, keys: readonly HostKey[], now: Date): Promise<readonly string[]> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const kept: string[] = []
  for (const { kind, text } of keys) {
    const file = join(folder, kind.file)
    const copies = [
      { name: file, content: text, mode: 0o600 },
      { name: `${file}.pub`, content: `${publicLine(text)}\n`, mode: 0o644 },
    ]
    for (const { name, content, mode } of copies) {
      const old = await readIfExists(name)
      if (old !== undefined && withoutComment(old) === withoutComment(content)) continue
      if (old !== undefined) kept.push(await keep(folder, name, { text: old, mode, now }))
      // Several processes may write the same copy.
      const temporary = `${name}.${process.pid}.new`
      await writeOwned(folder, temporary, { text: content, mode, flag: 'w' })
      await rename(temporary, name)
    }
  }
  return kept
}

/** A line of a public key without its comment; a private key as it is. */
function withoutComment(text: string): string {
  return text.startsWith('-----') ? text : text.trim().split(/\s+/, 2).join(' ')
}

/** Writes a backup of what `file` had. Resolves to its path. */
async function keep(
  folder: string,
  file: string,
  { text, mode, now }: { readonly text: string; readonly mode: number; readonly now: Date },
): Promise<string> {
  const backup = `${file}.old-${now.toISOString().replaceAll(/[-:]|\.\d+/g, '')}`
  for (let count = 1; ; count++) {
    const path = count === 1 ? backup : `${backup}-${count}`
    try {
      await writeOwned(folder, path, { text, mode, flag: 'wx' })
      return path
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/** Writes a file. If root runs the command, the owner of the folder gets it, so that the server can read it. */
async function writeOwned(
  folder: string,
  file: string,
  { text, mode, flag }: { readonly text: string; readonly mode: number; readonly flag: 'w' | 'wx' },
): Promise<void> {
  await writeFile(file, text, { mode, flag })
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await stat(folder)
  await chown(file, uid, gid)
}

/** The public key of a private key, as a line of an authorized_keys file. */
function publicLine(text: string): string {
  const key = parseHostKey(text, 'a host key of the database')
  return [key.type, key.getPublicSSH().toString('base64'), ...(key.comment ? [key.comment] : [])].join(' ')
}

async function readIfExists(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  }
}
