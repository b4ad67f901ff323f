/**
 * Which folders of this machine a remote shows, also through remotes that are made of others (alias, crypt, union …).
 * Each is asked of rclone itself, so that it alone interprets its configuration.
 */
import { realpath } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { GatewayFolders } from '../../src/contract/driver-env.js'
import { GatewayError } from '../../src/base/errors.js'
import { holdsGatewayFolders } from '../lib/gateway-folders.js'
import type { Remote, RemoteFacts } from './remote.js'

/** Maximum number of remotes that one is made of, in all levels. */
const maxRemotes = 100

type Sections = Awaited<ReturnType<Remote['configuration']>>

/** Types whose remotes are made of others. Others are, too, if they have the feature `WrapFs`. */
const compositeTypes = ['alias', 'archive', 'cache', 'chunker', 'combine', 'compress', 'crypt', 'hasher', 'union']

/**
 * The facts of the remote and of all remotes that it is made of. Rejects with `invalid` if they cannot be found out, as
 * for one that is defined by the text of another.
 */
export async function remotesOf(
  remote: Remote,
  first: RemoteFacts,
  sections: Sections,
  signal: AbortSignal,
): Promise<readonly RemoteFacts[]> {
  const found: RemoteFacts[] = []
  const waiting: RemoteFacts[] = [first]
  for (let facts = waiting.shift(); facts; facts = waiting.shift()) {
    found.push(facts)
    if (facts.features.has('IsLocal')) continue
    for (const text of upstreamsOf(facts, sections)) {
      if (found.length + waiting.length >= maxRemotes) throw opaque()
      waiting.push(
        await remote.facts(signal, text).catch((error: unknown) => {
          throw opaque(error)
        }),
      )
    }
  }
  return found
}

/** The remotes that this one is made of, as its section names them. */
function upstreamsOf({ name, features }: RemoteFacts, sections: Sections): readonly string[] {
  // rclone appends a digest in braces to the name of a remote whose options another remote overrides.
  const plainName = name.replace(/\{[^}]*\}$/, '')
  const section = Object.hasOwn(sections, plainName) ? sections[plainName] : undefined
  const onTheFly = /^:([a-z\d]+)/.exec(name)?.[1]
  const isComposite = compositeTypes.includes(section?.type ?? onTheFly ?? '') || features.has('WrapFs')
  if (!isComposite) return []
  if (!section || plainName !== name) throw opaque()
  const { type, remote = '', upstreams = '' } = section
  // Quoted as in CSV, with spaces in between.
  const words = [...upstreams.matchAll(/"((?:[^"]|"")*)"|(\S+)/g)].map(([, quoted, word = '']) =>
    quoted === undefined ? word : quoted.replaceAll('""', '"'),
  )
  const named = type === 'combine' ? words.map((word) => word.slice(word.indexOf('=') + 1)) : words
  return [remote, ...named.map((word) => word.replace(/:(?:ro|nc|writeback)$/, ''))].filter((text) => text !== '')
}

/** Rejects with `invalid` if one of these remotes shows folders of the gateway, or is in one of them. */
export async function assertOutsideGatewayFolders(remotes: readonly RemoteFacts[], own: GatewayFolders): Promise<void> {
  for (const { features, root } of remotes) {
    if (!features.has('IsLocal')) continue
    if (!root.startsWith('/')) {
      throw new GatewayError('invalid', { reason: 'a remote on this machine must name its folder by an absolute path' })
    }
    if (holdsGatewayFolders(await realPathOf(root), own)) {
      throw new GatewayError('invalid', { reason: 'the remote shows folders of the gateway with its keys and uploads' })
    }
  }
}

/** The path without symlinks, as far as it exists. */
async function realPathOf(path: string): Promise<string> {
  return realpath(path).catch(async () => (path === '/' ? path : join(await realPathOf(dirname(path)), basename(path))))
}

function opaque(cause?: unknown): GatewayError {
  return new GatewayError('invalid', {
    reason: 'it cannot be found out which remotes this one is made of, and so which folders of this machine it shows',
    cause,
  })
}
