/** What is fixed when the process starts. Settings that an admin changes at run time are in settings.ts. */
import { z } from 'zod'

const address = z.string().regex(/^(\[[0-9a-f:.]+\]|[^:\s]+):\d{1,5}$/i, 'must be HOST:PORT')

/** The configuration file. Every key is optional. */
export const configSchema = z.strictObject({
  http: address.default('0.0.0.0:5244').describe('Address of the HTTP API and WebDAV.'),
  sftp: z
    .union([z.literal('off'), address])
    .default('0.0.0.0:5222')
    .describe('Address of the SFTP server, or "off".'),
  site_url: z
    .string()
    .default('')
    .describe(
      'Where clients reach this server: empty, a path ("/files"), or a full URL ("https://example.org/files").',
    ),
  trusted_proxies: z
    .array(z.string())
    .default([])
    .describe('Addresses or networks (CIDR) of proxies whose X-Forwarded-* headers are believed.'),
  cors_origins: z.array(z.string()).default(['*']).describe('Origins that browsers may call the API from.'),
  token_hours: z.number().int().positive().default(48).describe('How long a sign-in lasts.'),
  drain_seconds: z.number().nonnegative().default(30).describe('How long running transfers may go on after a stop.'),
  log_level: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info'),
})

export type ConfigFile = z.infer<typeof configSchema>

export interface Config extends ConfigFile {
  /** Absolute path of the data folder. */
  readonly data: string
}
