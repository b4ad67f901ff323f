/** The SSH host keys of this server: made at the first run, kept where only its user reads them. */
import { constants } from 'node:fs'
import { chown, copyFile, mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import ssh2 from 'ssh2'
import { parseKeyLine } from './accounts/public-keys.js'
import { GatewayError } from './errors.js'

export interface KeyPair {
  /** In OpenSSH's format. */
  readonly private: string
  /** A line of an authorized_keys file. */
  readonly public: string
}

const generate = promisify(ssh2.utils.generateKeyPair) as (
  type: 'ed25519' | 'rsa',
  options: { readonly bits?: number; readonly comment: string },
) => Promise<KeyPair>

/**
 * A new key pair. The library loses the first byte of an ed25519 key where that is zero, one time in 256: such a pair is thrown
 * away and another one made.
 */
export async function makeKeyPair(
  type: 'ed25519' | 'rsa',
  options: { bits?: number; comment: string },
): Promise<KeyPair> {
  for (;;) {
    const pair = await generate(type, options)
    if (isSound(pair)) return pair
  }
}

function isSound(pair: KeyPair): boolean {
  try {
    parseKeyLine(pair.public)
    return !(ssh2.utils.parseKey(pair.private) instanceof Error)
  } catch {
    return false
  }
}

const kinds = [
  { file: 'ssh_host_ed25519_key', type: 'ed25519', options: { comment: 'tidegate' } },
  { file: 'ssh_host_rsa_key', type: 'rsa', options: { bits: 3072, comment: 'tidegate' } },
] as const

/** The private keys in OpenSSH's format, from `folder`, which is made with what is missing in it. */
export async function loadHostKeys(folder: string): Promise<readonly string[]> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  return Promise.all(kinds.map(async ({ file, type, options }) => loadOrMake(join(folder, file), type, options)))
}

/** The public keys in `folder`, each as a line of an authorized_keys file; `not_found` where a key was never made. */
export async function publicHostKeys(folder: string): Promise<readonly string[]> {
  return Promise.all(
    kinds.map(async ({ file }) => {
      const text = await readIfThere(join(folder, `${file}.pub`))
      if (text === undefined) throw new GatewayError('not_found', { reason: `there is no ${file}.pub in ${folder}` })
      return text.trim()
    }),
  )
}

/**
 * New keys of every kind, which the server uses from its next start on. Those they replace are kept beside them, under names that
 * end with the time. Resolves to these names.
 */
export async function rotateHostKeys(folder: string, now = new Date()): Promise<readonly string[]> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const ending = `.old-${now.toISOString().replaceAll(/[-:]|\.\d+/g, '')}`
  const kept: string[] = []
  for (const { file: name, type, options } of kinds) {
    const file = join(folder, name)
    const pair = await makeKeyPair(type, options)
    for (const old of [file, `${file}.pub`]) {
      if ((await readIfThere(old)) === undefined) continue
      // A copy: at no time is there no key, for which a server that starts just then would make one.
      await copyFile(old, old + ending, constants.COPYFILE_EXCL)
      await giveToOwnerOf(folder, old + ending)
      kept.push(old + ending)
    }
    await place(folder, file, pair)
  }
  return kept
}

async function loadOrMake(
  file: string,
  type: 'ed25519' | 'rsa',
  options: { bits?: number; comment: string },
): Promise<string> {
  const text = await readIfThere(file)
  if (text !== undefined) return text
  const pair = await makeKeyPair(type, options)
  await place(dirname(file), file, pair)
  return pair.private
}

async function place(folder: string, file: string, pair: KeyPair): Promise<void> {
  // Each appears whole, or not at all; the private key, which decides, last.
  for (const [name, text, mode] of [
    [`${file}.pub`, `${pair.public}\n`, 0o644],
    [file, pair.private, 0o600],
  ] as const) {
    await writeFile(`${name}.new`, text, { mode })
    await giveToOwnerOf(folder, `${name}.new`)
    await rename(`${name}.new`, name)
  }
}

/** Root may run the command, but the server has to read the keys. */
async function giveToOwnerOf(folder: string, file: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await stat(folder)
  await chown(file, uid, gid)
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  }
}
