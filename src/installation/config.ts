/** The configuration, fixed when the process starts. What an admin changes at run time is in `src/settings/`. */
import { readFile } from 'node:fs/promises'
import { BlockList } from 'node:net'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import { GatewayError } from '../base/errors.js'
import { decodeUtf8 } from '../base/utf8.js'
import { hostAndPort, subnetOf } from '../net/addresses.js'
import { connectionLimits, withoutPassword } from '../database/store-url.js'
import { secretVariable } from './input.js'

/** An IP address, or a network in CIDR notation. */
const network = z.string().transform((text, context) => {
  const subnet = subnetOf(text)
  if (subnet) return subnet
  context.issues.push({ code: 'custom', message: 'must be an address or a network such as 10.0.0.0/8', input: text })
  return z.NEVER
})

/** An address that a protocol listens on: a key of the configuration, `--KEY` and `TIDEGATE_KEY` of the same name. */
export interface ListenAddress {
  /** `HOST:PORT`, or "off" if `optional`. */
  readonly default: string
  readonly description: string
  /** Whether "off" is accepted instead of an address. */
  readonly optional: boolean
}

/** A protocol as the configuration sees it. Without `listen` it answers at the HTTP address. */
interface ConfiguredProtocol {
  readonly name: string
  readonly listen?: ListenAddress | undefined
}

/** The addresses of HTTP, which several protocols share. */
const httpAddresses: Readonly<Record<'http' | 'https', ListenAddress>> = {
  http: { default: '0.0.0.0:5244', description: 'address of the HTTP API and WebDAV, or "off"', optional: true },
  https: { default: 'off', description: 'address of the same over TLS, or "off"', optional: true },
}

/** The addresses that a daemon with these protocols listens on, by name: those of HTTP are the first. */
export function listenAddresses(protocols: readonly ConfiguredProtocol[]): ReadonlyMap<string, ListenAddress> {
  const own = protocols.flatMap(({ name, listen }) => (listen ? [[name, listen] as const] : []))
  return new Map([...Object.entries(httpAddresses), ...own])
}

function listenKey({ default: address, description, optional }: ListenAddress) {
  const value = optional ? z.union([z.literal('off'), hostAndPort], 'must be HOST:PORT, or "off"') : hostAndPort
  return value.default(address).describe(`${description[0]?.toUpperCase()}${description.slice(1)}.`)
}

const networks = z
  .array(network)
  .transform((subnets) => {
    const list = new BlockList()
    for (const subnet of subnets) list.addSubnet(...subnet)
    return list
  })
  .prefault([])

/** The keys of the configuration file beside the addresses. */
const keys = {
  tls_certificate: z
    .string()
    .default('')
    .describe('PEM file with the certificate for https, followed by those between it and the root.'),
  tls_key: z.string().default('').describe('PEM file with the key of tls_certificate.'),
  site_url: z
    .string()
    .regex(/^$|^\/|^https?:\/\/[^/]/, 'must be empty, a path, or a URL of http or https')
    .default('')
    .describe(
      'Where clients reach this server: empty, a path ("/files"), or a full URL ("https://example.org/files").',
    ),
  trusted_proxies: networks.describe(
    'Addresses or networks (CIDR) of proxies whose X-Forwarded-* headers are trusted.',
  ),
  proxy_protocol: networks.describe(
    'Addresses or networks (CIDR) of proxies whose connections, to HTTP and SFTP, begin with the header of the PROXY protocol.',
  ),
  cors_origins: z.array(z.string()).default(['*']).describe('Origins that browsers may call the API from.'),
  dist_dir: z
    .string()
    .default('')
    .describe(
      'Folder of a built web client with its index.html, which is served instead of the console. Empty: the console.',
    ),
  cdn: z
    .string()
    .regex(/^$|^https?:\/\/[^\s/?#"'<>\\]+[^\s?#"'<>\\]*$/, 'must be empty, or a URL of http or https without ? and #')
    .refine((text) => text === '' || URL.canParse(text), 'must be a URL')
    .default('')
    .describe('URL from which browsers load the files of the web client in dist_dir instead of from this server.'),
  token_hours: z.number().int().positive().default(48).describe('Lifetime of a sign-in in hours.'),
  drain_seconds: z
    .number()
    .nonnegative()
    .default(30)
    .describe('Seconds for which running transfers may continue after a stop.'),
  store: z
    .string()
    .regex(/^$|^postgres(ql)?:\/\/[^\s]+$/, 'must be empty, or a URL such as postgres://user@host/database')
    .default('')
    .describe(
      'URL of the PostgreSQL database ("postgres://user@host/database"). Empty: an SQLite file in the data folder.',
    ),
  store_connections: z
    .number()
    .int()
    .min(connectionLimits.min)
    .max(1000)
    .default(connectionLimits.default)
    .describe('The largest number of connections of a process to PostgreSQL.'),
  workers: z.coerce
    .number('must be a whole number')
    .int()
    .min(1)
    .max(256)
    .default(1)
    .describe('Number of processes that serve requests. More than 1 use more cores of this machine.'),
  log_level: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
    .default('info')
    .describe('The lowest level of messages that are logged.'),
}

/** Addresses by protocol: `HOST:PORT`, or "off". */
export type Addresses = Readonly<Record<string, string>> & { readonly http: string }

/** The configuration file of a daemon with these protocols. Every key is optional. */
export function configSchema(protocols: readonly ConfiguredProtocol[]) {
  const listeners = listenAddresses(protocols)
  const listenKeys = Object.fromEntries([...listeners].map(([name, address]) => [name, listenKey(address)]))
  const shape: typeof keys = { ...listenKeys, ...keys }
  return z
    .strictObject(shape)
    .refine((file) => file.cdn === '' || file.dist_dir !== '', {
      path: ['cdn'],
      message: 'is of use only beside dist_dir, which names the folder with the index.html',
    })
    .refine((file) => on(file, 'http') || on(file, 'https'), {
      path: ['http'],
      message: 'can be "off" only if https is an address',
    })
    .refine((file) => !on(file, 'https') || (file.tls_certificate !== '' && file.tls_key !== ''), {
      path: ['https'],
      message: 'needs tls_certificate and tls_key',
    })
    .transform((file) => {
      const isAddress = ([key]: readonly [string, unknown]) => listeners.has(key)
      const values = Object.entries(file)
      return {
        ...(Object.fromEntries(values.filter((value) => !isAddress(value))) as typeof file),
        addresses: Object.fromEntries(values.filter(isAddress)) as Addresses,
      }
    })
}

/** Whether the file has an address of this name. */
function on(file: Readonly<Record<string, unknown>>, name: keyof typeof httpAddresses): boolean {
  return file[name] !== 'off'
}

/** The configuration file as a JSON Schema, for editors: the content of config/schema.json. */
export function configFileSchema(protocols: readonly ConfiguredProtocol[]): string {
  const { properties, ...rest } = z.toJSONSchema(configSchema(protocols), { io: 'input' })
  const schema = {
    title: 'Configuration of Tidegate',
    ...rest,
    properties: { $schema: { type: 'string' }, ...properties },
  }
  return `${JSON.stringify(schema, null, 2)}\n`
}

/** The content of the configuration file, with addresses by protocol. */
export type ConfigInput = z.input<ReturnType<typeof configSchema>> & Readonly<Record<string, unknown>>
type ConfigFile = z.output<ReturnType<typeof configSchema>>

export interface Config extends ConfigFile {
  /** Absolute path of the data folder. */
  readonly data: string
  /** Path of the configuration file, if there is one. */
  readonly configFile?: string | undefined
}

/** Returns the location of the database, for `openStore`: a file, or a URL of PostgreSQL. */
export function storeLocation({ store, data }: Pick<Config, 'store' | 'data'>): string {
  return store === '' ? join(data, 'data.db') : store
}

/** The flags of a command, with addresses by protocol. */
export interface ConfigFlags {
  readonly data?: string
  readonly config?: string
  readonly [name: string]: unknown
}

/** The sources that override the file, and what it configures. */
interface ConfigSources {
  readonly flags: ConfigFlags
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly protocols: readonly ConfiguredProtocol[]
}

/**
 * Loads the configuration. Precedence: flags, environment, file, defaults. Rejects with `invalid` if the file cannot be
 * read or a value is not valid, and as `secretVariable` does.
 */
export async function loadConfig({ flags, environment, protocols }: ConfigSources): Promise<Config> {
  const path = flags.config ?? environment.TIDEGATE_CONFIG
  const file = path === undefined ? {} : await readConfigFile(path)
  if (typeof flags.store === 'string') assertNoPassword(flags.store, 'TIDEGATE_STORE, PGPASSWORD or PGPASSFILE')
  const names = [...listenAddresses(protocols).keys(), 'tls_certificate', 'tls_key', 'store', 'workers']
  const variables: typeof environment = {
    ...environment,
    TIDEGATE_STORE: await secretVariable('TIDEGATE_STORE', environment),
  }
  const overriding = names.flatMap((name) => {
    const value = flags[name] ?? variables[variableOf(name)]
    return value === undefined ? [] : [[name, value]]
  })
  const parsed = configSchema(protocols).safeParse({ ...file, ...Object.fromEntries(overriding) })
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const where = issue?.path.join('.')
    const isOverriding = overriding.some(([name]) => name === issue?.path[0])
    const source = path === undefined || isOverriding ? '' : ` (in ${path})`
    throw new GatewayError('invalid', {
      reason: `bad configuration: ${where ? `${where}: ` : ''}${issue?.message ?? ''}${source}`,
    })
  }
  return { ...parsed.data, data: resolve(flags.data ?? environment.TIDEGATE_DATA ?? 'data'), configFile: path }
}

async function readConfigFile(path: string): Promise<Record<string, unknown>> {
  let bytes: Buffer
  try {
    bytes = await readFile(path)
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'it does not exist' : (error as Error).message
    throw new GatewayError('invalid', { reason: `the configuration file ${path} cannot be read: ${why}`, cause: error })
  }
  const text = decodeUtf8(bytes)
  if (text === undefined) throw new GatewayError('invalid', { reason: `the configuration file ${path} is not UTF-8` })
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      // Editors find the schema by this key.
      return Object.fromEntries(Object.entries(value).filter(([key]) => key !== '$schema'))
    }
  } catch (error) {
    throw new GatewayError('invalid', {
      reason: `the configuration file ${path} is not JSON: ${(error as Error).message}`,
      cause: error,
    })
  }
  throw new GatewayError('invalid', { reason: `the configuration file ${path} must hold an object` })
}

/** Throws `invalid` for a URL on the command line that has a password. `variables`: what can be set instead. */
export function assertNoPassword(url: string, variables: string): void {
  if (url === withoutPassword(url)) return
  throw new GatewayError('invalid', {
    reason: `other users can see a password on the command line: set ${variables}`,
  })
}

/** The environment variable of a key, such as the listen address of a protocol. */
export function variableOf(name: string): string {
  return `TIDEGATE_${name.toUpperCase()}`
}
