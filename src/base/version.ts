/** The version of the program, from its package.json. */
import { readFileSync } from 'node:fs'

const packageFile = new URL('../../../package.json', import.meta.url)
const { version: number } = JSON.parse(readFileSync(packageFile, 'utf8')) as { readonly version: string }

/** The version of this program as clients see it: `v0.1.0`. */
export const version = `v${number}`
