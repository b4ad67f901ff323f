/** The SSH host keys of this server: made at the first run, kept where only its user reads them. */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import ssh2 from 'ssh2'
import { parseKeyLine } from './accounts/public-keys.js'

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

async function loadOrMake(
  file: string,
  type: 'ed25519' | 'rsa',
  options: { bits?: number; comment: string },
): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const pair = await makeKeyPair(type, options)
  await writeFile(`${file}.pub`, `${pair.public}\n`, { mode: 0o644 })
  // The private key appears whole, or not at all.
  await writeFile(`${file}.new`, pair.private, { mode: 0o600 })
  await rename(`${file}.new`, file)
  return pair.private
}
