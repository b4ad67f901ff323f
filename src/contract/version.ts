import { readFileSync } from 'node:fs'

const packageFile = new URL('../../../package.json', import.meta.url)
const { version: number } = JSON.parse(readFileSync(packageFile, 'utf8')) as { readonly version: string }

/** Of this program, as clients are told: `v0.1.0`. */
export const version = `v${number}`
