/** The fields of a webhook, their limits, and the events that it gets. */
import { GatewayError } from '../base/errors.js'
import { compilePatterns, globSource, type Pattern } from '../base/patterns.js'
import type { AuditEvent, WebhookRow } from '../database/audit-rows.js'
import { eventKinds } from '../base/event-kinds.js'
import { parseWebAddress } from '../net/web-address.js'
import { nameOfEvent } from './cloud-event.js'

export type HookFields = Pick<WebhookRow, 'name' | 'url' | 'kinds' | 'paths' | 'enabled'>

/** Maximum numbers of hooks, and of the kinds and paths of one: each event is compared with all of them. */
export const maxHooks = 50
export const maxKinds = 50
export const maxPaths = 16
const maxUrlLength = 2048

const names: readonly string[] = eventKinds.flatMap((kind) =>
  (['done', 'refused', 'failed'] as const).map((result) => nameOfEvent({ kind, result })),
)

/** Undefined fields are unchanged. */
export type HookChanges = { readonly [Field in keyof HookFields]?: HookFields[Field] | undefined }

/** The fields that are given, as they are stored. Throws `invalid`. */
export function checkedFields({ name, url, kinds, paths, enabled }: HookChanges): Partial<HookFields> {
  if (name !== undefined && !isName(name)) {
    throw invalid('a webhook needs a name of at most 255 bytes without control characters')
  }
  if (kinds !== undefined) checkKinds(kinds)
  if (paths !== undefined) pathsMatcher(paths)
  return {
    ...(name !== undefined && { name }),
    ...(url !== undefined && { url: checkedUrl(url) }),
    ...(kinds !== undefined && { kinds }),
    ...(paths !== undefined && { paths }),
    ...(enabled !== undefined && { enabled }),
  }
}

function isName(text: string): boolean {
  return text.trim() !== '' && Buffer.byteLength(text) <= 255 && text.isWellFormed() && !/\p{Cc}/u.test(text)
}

function checkedUrl(text: string): string {
  const { href } = parseWebAddress(text)
  if (href.length > maxUrlLength) throw invalid(`the URL of a webhook has at most ${maxUrlLength} characters`)
  return href
}

function checkKinds(kinds: readonly string[]): void {
  if (kinds.length > maxKinds) throw invalid(`a webhook can have at most ${maxKinds} kinds`)
  const unknown = kinds.find((kind) => !names.some((name) => isOfKind(name, kind)))
  if (unknown !== undefined) {
    throw invalid(`there is no kind of event ${unknown.slice(0, 50)}; there are: ${eventKinds.join(', ')}`)
  }
}

/** `file.*` is everything that begins with `file.`. */
function isOfKind(name: string, kind: string): boolean {
  return kind.endsWith('.*') ? name.startsWith(kind.slice(0, -1)) : name === kind
}

/** Throws `invalid` for patterns that a webhook cannot have. */
function pathsMatcher(paths: readonly string[]): readonly Pattern[] {
  if (paths.length > maxPaths) throw invalid(`a webhook can have at most ${maxPaths} paths`)
  const wrong = paths.find((path) => !path.startsWith('/') || path.split('/').includes('..'))
  if (wrong !== undefined) throw invalid('the path of a webhook begins with / and does not contain ..')
  return compilePatterns(paths.map((path) => globSource(`${path.replace(/\/+$/, '')}/**`)))
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}

/** Whether a hook gets an event. */
export function hookMatcher({ kinds, paths }: Pick<HookFields, 'kinds' | 'paths'>): (event: AuditEvent) => boolean {
  const patterns = pathsMatcher(paths)
  return (event) => {
    const name = nameOfEvent(event)
    if (kinds.length > 0 && !kinds.some((kind) => isOfKind(name, kind))) return false
    const { path, target } = event
    const isAt = (at: string | undefined) => at !== undefined && patterns.some((pattern) => pattern.test(at))
    return patterns.length === 0 || isAt(path) || isAt(target)
  }
}
