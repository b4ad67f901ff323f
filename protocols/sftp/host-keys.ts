/** The SSH host keys: generated at the first run, and stored readable by the server's user only. */
import { constants } from 'node:fs'
import { chown, copyFile, mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import ssh2 from 'ssh2'
import { parseKeyLine } from '../../src/accounts/public-keys.js'
import { GatewayError } from '../../src/contract/errors.js'

interface KeyPair {
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

const kinds = [
  { file: 'ssh_host_ed25519_key', type: 'ed25519', options: { comment: 'tidegate' } },
  { file: 'ssh_host_rsa_key', type: 'rsa', options: { bits: 3072, comment: 'tidegate' } },
] as const

/** Loads the private keys in OpenSSH's format from `folder`. Creates the folder and any missing keys. */
export async function loadHostKeys(folder: string): Promise<readonly string[]> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  return Promise.all(kinds.map(async ({ file, type, options }) => loadOrGenerate(join(folder, file), type, options)))
}

/**
 * The public keys in `folder`, each as a line of an authorized_keys file; rejects with `not_found` if one is missing.
 */
export async function publicHostKeys(folder: string): Promise<readonly string[]> {
  return Promise.all(
    kinds.map(async ({ file }) => {
      const text = await readIfExists(join(folder, `${file}.pub`))
      if (text === undefined) throw new GatewayError('not_found', { reason: `there is no ${file}.pub in ${folder}` })
      return text.trim()
    }),
  )
}

/**
 * Generates new keys of every kind, which the server uses from its next start. The old keys are copied to backup files
 * whose names end with the time. Resolves to the paths of these backups.
 */
export async function rotateHostKeys(folder: string, now = new Date()): Promise<readonly string[]> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const suffix = `.old-${now.toISOString().replaceAll(/[-:]|\.\d+/g, '')}`
  const backups: string[] = []
  for (const { file: name, type, options } of kinds) {
    const file = join(folder, name)
    const pair = await generateKeyPair(type, options)
    for (const old of [file, `${file}.pub`]) {
      if ((await readIfExists(old)) === undefined) continue
      // Copied, not renamed: a server that starts in between would generate a missing key.
      await copyFile(old, old + suffix, constants.COPYFILE_EXCL)
      await giveToOwnerOf(folder, old + suffix)
      backups.push(old + suffix)
    }
    await writePair(folder, file, pair)
  }
  return backups
}

async function loadOrGenerate(
  file: string,
  type: 'ed25519' | 'rsa',
  options: { bits?: number; comment: string },
): Promise<string> {
  const text = await readIfExists(file)
  if (text !== undefined) return text
  const pair = await generateKeyPair(type, options)
  await writePair(dirname(file), file, pair)
  return pair.private
}

async function writePair(folder: string, file: string, pair: KeyPair): Promise<void> {
  // Each file is replaced atomically. The private key, which `loadOrGenerate` looks for, is last.
  for (const [name, text, mode] of [
    [`${file}.pub`, `${pair.public}\n`, 0o644],
    [file, pair.private, 0o600],
  ] as const) {
    await writeFile(`${name}.new`, text, { mode })
    await giveToOwnerOf(folder, `${name}.new`)
    await rename(`${name}.new`, name)
  }
}

/** If root runs the command, gives the file to the owner of the folder, so that the server can read it. */
async function giveToOwnerOf(folder: string, file: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await stat(folder)
  await chown(file, uid, gid)
}

async function readIfExists(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  }
}
