/** The binaries of a package: without what only debuggers read, and the C library that they need. */
import { chmod, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Architecture } from './architectures.js'
import { run } from './run.js'

/** Node.js, its native modules and their libraries, in the folder of a package. */
async function binariesIn(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder, { recursive: true })
  return names.filter((name) => isModule(name) || name === join('bin', 'node')).map((name) => join(folder, name))
}

function isModule(name: string): boolean {
  return name.endsWith('.node') || /\.so(\.|$)/.test(name)
}

/** Removes the symbols that no start needs, and the permission to execute from modules. */
export async function strip(folder: string, { toolPrefix }: Architecture): Promise<void> {
  const binaries = await binariesIn(folder)
  // Tools with the prefix of this machine's own architecture are installed with its compiler.
  await run(`${toolPrefix}strip`, ['--strip-unneeded', ...binaries])
  for (const name of binaries.filter(isModule)) await chmod(name, 0o644)
}

/** The newest version of the C library that a binary of the package asks for. */
export async function libcOf(folder: string, { toolPrefix }: Architecture): Promise<string> {
  let newest = [0, 0]
  for (const name of await binariesIn(folder)) {
    const symbols = await run(`${toolPrefix}objdump`, ['-T', name])
    for (const [, major = '', minor = ''] of symbols.matchAll(/GLIBC_(\d+)\.(\d+)/g)) {
      const version = [Number(major), Number(minor)]
      if ((version[0] ?? 0) * 1000 + (version[1] ?? 0) > (newest[0] ?? 0) * 1000 + (newest[1] ?? 0)) newest = version
    }
  }
  return newest.join('.')
}
