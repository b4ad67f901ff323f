/** What is fixed when the process starts. Settings that an admin changes at run time are in settings.ts. */
import { readFile } from 'node:fs/promises'
import { BlockList, isIP } from 'node:net'
import { resolve } from 'node:path'
import { z } from 'zod'
import { GatewayError } from './errors.js'

/** `HOST:PORT`, an IPv6 address in brackets. */
export const hostAndPort = z
  .string()
  .regex(/^(\[[0-9a-f:.]+\]|[^:\s]+):\d{1,5}$/i, 'must be HOST:PORT')
  .refine((text) => splitAddress(text).port <= 65535, 'a port is a number up to 65535')

/** An IP address, or a network: one with the length of a prefix. */
const network = z.string().transform((text, context) => {
  const [address = '', prefix, ...rest] = text.split('/')
  const version = isIP(address)
  const longest = version === 4 ? 32 : 128
  const bits = prefix === undefined ? longest : /^\d{1,3}$/.test(prefix) ? Number(prefix) : NaN
  if (version !== 0 && rest.length === 0 && bits <= longest) {
    return { address, bits, family: version === 4 ? ('ipv4' as const) : ('ipv6' as const) }
  }
  context.issues.push({
    code: 'custom',
    message: 'must be an address or a network such as 10.0.0.0/8',
    input: text,
  })
  return z.NEVER
})

/** Each key of the configuration file. */
const keys = {
  http: hostAndPort.default('0.0.0.0:5244').describe('Address of the HTTP API and WebDAV.'),
  sftp: z
    .union([z.literal('off'), hostAndPort])
    .default('0.0.0.0:5222')
    .describe('Address of the SFTP server, or "off".'),
  site_url: z
    .string()
    .regex(/^$|^\/|^https?:\/\/[^/]/, 'must be empty, a path, or a URL of http or https')
    .default('')
    .describe(
      'Where clients reach this server: empty, a path ("/files"), or a full URL ("https://example.org/files").',
    ),
  trusted_proxies: z
    .array(network)
    .transform((networks) => {
      const list = new BlockList()
      for (const { address, bits, family } of networks) list.addSubnet(address, bits, family)
      return list
    })
    .prefault([])
    .describe('Addresses or networks (CIDR) of proxies whose X-Forwarded-* headers are believed.'),
  cors_origins: z.array(z.string()).default(['*']).describe('Origins that browsers may call the API from.'),
  dist_dir: z
    .string()
    .default('')
    .describe(
      'Folder of a built web client, with its index.html, that is served as the pages of the site. Empty: none.',
    ),
  cdn: z
    .string()
    .regex(/^$|^https?:\/\/[^\s/?#"'<>\\]+[^\s?#"'<>\\]*$/, 'must be empty, or a URL of http or https without ? and #')
    .refine((text) => text === '' || URL.canParse(text), 'must be a URL')
    .default('')
    .describe('URL from which browsers load the files of the web client in dist_dir instead of from here.'),
  token_hours: z.number().int().positive().default(48).describe('How long a sign-in lasts.'),
  drain_seconds: z.number().nonnegative().default(30).describe('How long running transfers may go on after a stop.'),
  log_level: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
    .default('info')
    .describe('The least important messages that the log shows.'),
}

/** The configuration file. Every key is optional. */
export const configSchema = z.strictObject(keys).refine((file) => file.cdn === '' || file.dist_dir !== '', {
  path: ['cdn'],
  message: 'is of use only beside dist_dir, which names the folder with the index.html',
})

/** The same as a JSON Schema, for editors: the text of config/schema.json. */
export function configFileSchema(): string {
  const { properties, ...rest } = z.toJSONSchema(configSchema, { io: 'input' })
  const schema = {
    title: 'Configuration of Tidegate',
    ...rest,
    properties: { $schema: { type: 'string' }, ...properties },
  }
  return `${JSON.stringify(schema, null, 2)}\n`
}

/** What the file may hold. */
export type ConfigInput = z.input<typeof configSchema>
export type ConfigFile = z.infer<typeof configSchema>

export interface Config extends ConfigFile {
  /** Absolute path of the data folder. */
  readonly data: string
}

/** What the command line and the environment say beside the file. */
export interface ConfigSources {
  readonly flags: { readonly data?: string; readonly config?: string; readonly http?: string; readonly sftp?: string }
  readonly environment: Readonly<Record<string, string | undefined>>
}

/**
 * A flag beats the environment, which beats the file, which beats the default. Rejects with `invalid`, in one sentence, where
 * the file cannot be read or a value does not fit.
 */
export async function loadConfig({ flags, environment }: ConfigSources): Promise<Config> {
  const path = flags.config ?? environment.TIDEGATE_CONFIG
  const file = path === undefined ? {} : await readConfigFile(path)
  const given = {
    ...file,
    ...defined({ http: environment.TIDEGATE_HTTP, sftp: environment.TIDEGATE_SFTP }),
    ...defined({ http: flags.http, sftp: flags.sftp }),
  }
  const parsed = configSchema.safeParse(given)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const where = issue?.path.join('.')
    throw new GatewayError('invalid', {
      reason: `bad configuration: ${where ? `${where}: ` : ''}${issue?.message ?? ''}`,
    })
  }
  return { ...parsed.data, data: resolve(flags.data ?? environment.TIDEGATE_DATA ?? 'data') }
}

async function readConfigFile(path: string): Promise<Record<string, unknown>> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'it does not exist' : (error as Error).message
    throw new GatewayError('invalid', { reason: `the configuration file ${path} cannot be read: ${why}` })
  }
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      // Editors find the schema by this key.
      return Object.fromEntries(Object.entries(value).filter(([key]) => key !== '$schema'))
    }
  } catch (error) {
    throw new GatewayError('invalid', {
      reason: `the configuration file ${path} is not JSON: ${(error as Error).message}`,
    })
  }
  throw new GatewayError('invalid', { reason: `the configuration file ${path} must hold an object` })
}

function defined(values: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).filter((each): each is [string, string] => each[1] !== undefined))
}

/** Where this machine reaches a server that listens at `host`. */
export function connectableHost(host: string): string {
  return host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
}

/** `HOST:PORT`, an IPv6 address in brackets, as its parts. */
export function splitAddress(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':')
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) }
}
