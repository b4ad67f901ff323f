/** What the server tells of a file as an entry. */
import type { Entry } from '../../src/driver.js'
import { attributes, type FileFacts } from './client/messages.js'

/** Reparse points that lead elsewhere (MS-FSCC §2.1.2.1): symbolic links and junctions. All others are files of a kind. */
const leadingTags: ReadonlySet<number> = new Set([0xa000000c, 0xa0000003])

export function isFolder(facts: FileFacts): boolean {
  return (facts.attributes & attributes.directory) !== 0 && !leadingTags.has(facts.reparseTag)
}

export function entryOf(name: string, facts: FileFacts): Entry {
  const { size, modified, created, index, written, changed } = facts
  if (leadingTags.has(facts.reparseTag)) return { name, kind: 'link', size: 0, modified, created }
  if (isFolder(facts)) return { name, kind: 'folder', size: 0, modified, created }
  const revision = [index, BigInt(size), written, changed].map((part) => part.toString(36)).join('-')
  return { name, kind: 'file', size, modified, created, revision }
}
