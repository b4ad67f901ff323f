/** The folder that every package contains: the program with its Node.js. */
import { chmod, copyFile, cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Architecture } from './architectures.js'
import { strip } from './binaries.js'
import { prune, type Program } from './native.js'

/** What of this repository is in it, beside the built program. */
const files = ['README.md', 'LICENSE', 'CHANGELOG.md', 'config', 'docs', 'systemd']
const built = ['src', 'protocols', 'drivers', 'web']

/** Runs the program with the Node.js beside it, also by a symlink. */
const launcher = `#!/bin/sh
set -e
program=$(readlink -f -- "$0")
folder=\${program%/bin/tidegate}
exec "$folder/bin/node" "$folder/dist/src/main.js" "$@"
`

/** Writes it to the folder, which must not exist. The repository must be built. */
export async function writeTree(root: string, program: Program, architecture: Architecture): Promise<void> {
  await mkdir(join(root, 'bin'), { recursive: true })
  await mkdir(join(root, 'dist'))
  await copyFile(join(program.node, 'bin', 'node'), join(root, 'bin', 'node'))
  await copyFile(join(program.node, 'LICENSE'), join(root, 'bin', 'node.LICENSE'))
  await writeFile(join(root, 'bin', 'tidegate'), launcher)
  for (const name of ['node', 'tidegate']) await chmod(join(root, 'bin', name), 0o755)
  await copyFile(join(program.folder, 'package.json'), join(root, 'package.json'))
  for (const name of files) await cp(name, join(root, name), { recursive: true })
  // The pictures are for the pages of the repository.
  await rm(join(root, 'docs', 'images'), { recursive: true })
  const isLoaded = (path: string) => !path.endsWith('.js.map') && !path.endsWith('.tsbuildinfo')
  for (const name of built)
    await cp(join('dist', name), join(root, 'dist', name), { recursive: true, filter: isLoaded })
  await cp(join(program.folder, 'node_modules'), join(root, 'node_modules'), { recursive: true })
  await prune(join(root, 'node_modules'), architecture)
  await strip(root, architecture)
}
