/** Converts the attributes that the server reports to an `Entry`. */
import type { Entry } from '../../src/contract/entry.js'
import { attributes, type FileFacts } from './client/messages.js'

/**
 * Tags of the reparse points that are shown as symlinks (MS-FSCC §2.1.2.1): symbolic links, junctions, and links of
 * DFS, which lead to a share of another server.
 */
const symlinkTags: ReadonlySet<number> = new Set([0xa000000c, 0xa0000003, 0x8000000a, 0x80000012])

export function isFolder(facts: FileFacts): boolean {
  return (facts.attributes & attributes.directory) !== 0 && !symlinkTags.has(facts.reparseTag)
}

export function entryOf(name: string, facts: FileFacts): Entry {
  const { size, modified, created, index, written, changed } = facts
  if (symlinkTags.has(facts.reparseTag)) return { name, kind: 'symlink', size: 0, modified, created }
  if (isFolder(facts)) return { name, kind: 'folder', size: 0, modified, created }
  const revision = [index, BigInt(size), written, changed].map((part) => part.toString(36)).join('-')
  return { name, kind: 'file', size, modified, created, revision }
}
