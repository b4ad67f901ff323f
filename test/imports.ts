/** The imports of a source file, read from its text. */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

interface Import {
  /** The path of a file of the project, or the name of a module: `src/base/path.ts`, `node:child_process`. */
  readonly to: string
  readonly isFile: boolean
  /** `import type` and `export type`: nothing is loaded. */
  readonly isType: boolean
}

const importLine =
  /(?:^|\n)\s*(?:import|export)\s+(type\s)?[^'"]*?from\s+'([^']+)'|\bimport\(\s*'([^']+)'\s*\)|(?:^|\n)import\s+'([^']+)'/g

const read = new Map<string, readonly Import[]>()

/**
 * The imports of `file`, whose path is relative to the checkout, as those of the result are. Each file is read once.
 */
export function importsOf(file: string): readonly Import[] {
  const imports = read.get(file) ?? importsIn(file)
  read.set(file, imports)
  return imports
}

function importsIn(file: string): readonly Import[] {
  // The text of a test may have a program in it, whose imports are not there.
  if (!existsSync(file)) return []
  return Array.from(readFileSync(file, 'utf8').matchAll(importLine), ([, type, from, loaded, run]) => {
    const name = from ?? loaded ?? run ?? ''
    const isFile = name.startsWith('.')
    const to = isFile ? join(dirname(file), name).replace(/\.js$/, '.ts') : name
    return { to, isFile, isType: type !== undefined }
  })
}
