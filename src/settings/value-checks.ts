/** What values of settings must be, beside what their types say. */
import { isAbsolute } from 'node:path'
import { GatewayError } from '../contract/errors.js'
import { compilePatterns, patternLines, type Pattern } from '../contract/patterns.js'
import { hostAndPort } from '../net/addresses.js'
import { parseNetworks } from '../net/egress.js'
import type { SettingKey } from './settings-help.js'

/** Each throws `invalid` or `costly_pattern`, with a reason for the admin. */
export const valueChecks: Readonly<Partial<Record<SettingKey, (value: string) => void>>> = {
  egress_networks: (value) => void parseNetworks(value),
  metrics_networks: (value) => void parseNetworks(value),
  egress_proxy: (value) => {
    if (value === '' || value === 'off' || hostAndPort.safeParse(value).success) return
    throw new GatewayError('invalid', { reason: 'it must be HOST:PORT, off, or empty' })
  },
  offline_download_temp_dir: (value) => {
    if (value === '' || isAbsolute(value)) return
    throw new GatewayError('invalid', { reason: 'it must be an absolute path' })
  },
  privacy_regs: (value) => void privacyPatterns(value),
}

/** Compiles one pattern per line. Ignores lines that are not regular expressions. Throws `costly_pattern`. */
export function privacyPatterns(text: string): readonly Pattern[] {
  return compilePatterns(
    patternLines(text).map((line) => line.trim()),
    'ignored',
  )
}
