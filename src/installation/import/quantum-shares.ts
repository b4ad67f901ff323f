/** What a share of File Browser Quantum permits. Nothing is read here. */
import { z } from 'zod'
import type { ShareMode } from '../../base/rights.js'
import { listOf, parseJson } from './json.js'

const flag = z.boolean().nullish()
const limit = z.number().nullish()

/** The fields that say what visitors may do. Others are about the look of pages. */
const settings = z.object({
  shareType: z.string().max(100).default(''),
  allowCreate: flag,
  allowModify: flag,
  allowDelete: flag,
  disableDownload: flag,
  disableAnonymous: flag,
  allowedUsernames: listOf(z.string(), 1000).nullish(),
  downloadsLimit: limit,
  perUserDownloadLimit: flag,
  maxBandwidth: limit,
  hideFileExt: z.string().nullish(),
})

interface ShareSettings {
  readonly mode: ShareMode
  /** 0: any number. */
  readonly maxDownloads: number
  /** What it denies that a share here cannot deny. */
  readonly faults: readonly string[]
  /** What else is not as it was. */
  readonly changes: readonly string[]
}

/** `text`: JSON; empty for none. Throws `invalid` if the settings cannot be read. */
export function shareSettingsOf(text: string): ShareSettings {
  const own = parseJson(settings, text || '{}', 'its settings are not JSON', 'its settings have another form')
  const mode = modeOf(own.shareType, own.allowCreate === true && own.allowModify === true)
  const maxDownloads = Math.max(0, Math.floor(own.downloadsLimit ?? 0))
  const isForUsers =
    own.disableAnonymous === true || own.perUserDownloadLimit === true || (own.allowedUsernames ?? []).length > 0
  const reads = mode !== 'upload'
  const faults = {
    [`its type ${own.shareType} is not known`]: mode === undefined,
    'only some users could open it there, and everybody can here': isForUsers,
    'nobody could download from it, and everybody can here': reads && own.disableDownload === true,
    'it showed no files with some extensions': reads && (own.hideFileExt ?? '') !== '',
  }
  const changes = {
    'visitors cannot add or replace files, because these are one right here':
      mode === 'read' && (own.allowCreate === true || own.allowModify === true),
    'visitors cannot remove anything': own.allowDelete === true,
    'its downloads are its visits': maxDownloads > 0,
    'its bandwidth is not limited': (own.maxBandwidth ?? 0) > 0,
  }
  return { mode: mode ?? 'read', maxDownloads, faults: whichHold(faults), changes: whichHold(changes) }
}

/** Undefined for an unknown type. */
function modeOf(type: string, mayWrite: boolean): ShareMode | undefined {
  if (type === 'upload') return 'upload'
  if (type === 'normal' || type === '') return mayWrite ? 'both' : 'read'
  return undefined
}

function whichHold(sentences: Readonly<Record<string, boolean>>): readonly string[] {
  return Object.entries(sentences).flatMap(([sentence, holds]) => (holds ? [sentence] : []))
}
