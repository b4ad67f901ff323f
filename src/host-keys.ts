/** The SSH host keys of this server: made at the first run, kept where only its user reads them. */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import ssh2 from 'ssh2'

const generate = promisify(ssh2.utils.generateKeyPair) as (
  type: 'ed25519' | 'rsa',
  options: { readonly bits?: number; readonly comment: string },
) => Promise<{ readonly private: string; readonly public: string }>

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
  const pair = await generate(type, options)
  await writeFile(`${file}.pub`, `${pair.public}\n`, { mode: 0o644 })
  // The private key appears whole, or not at all.
  await writeFile(`${file}.new`, pair.private, { mode: 0o600 })
  await rename(`${file}.new`, file)
  return pair.private
}
