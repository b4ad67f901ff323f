/** OpenLDAP on free ports, with its own database, TLS certificate and people. Plain, StartTLS and TLS. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Attribute, Change, Client } from 'ldapts'
import { findProgram } from '../programs.js'
import { makeCertificate } from './certificates.js'
import { accepts, freePorts } from './free-port.js'

/** Programs that `startSlapd` needs. */
export const slapdPrograms = ['slapd', 'openssl'] as const

export const suffix = 'dc=example,dc=org'
/** Reads all but passwords. Others read nothing, and everybody may bind. */
export const reader = { dn: `cn=reader,${suffix}`, password: 'reads, for tests' } as const
const manager = { dn: `cn=manager,${suffix}`, password: 'manages, for tests' } as const

export type Attributes = Readonly<Record<string, string | string[]>>

export interface SlapdServer {
  /** For plain LDAP and StartTLS. */
  readonly port: number
  readonly tlsPort: number
  /** The file of the certificate, which is its own authority. It names `localhost` and 127.0.0.1. */
  readonly certificate: string
  /** Adds an entry below the suffix. `name`: the DN without the suffix. */
  add(name: string, attributes: Attributes): Promise<void>
  /** Adds a person below `ou=people`, whose uid, cn and sn are the name. */
  addPerson(name: string, password: string, attributes?: Attributes): Promise<void>
  /** Adds a group below `ou=groups`, with these names of people. */
  addGroup(name: string, people: readonly string[]): Promise<void>
  /** Replaces the values of an attribute; without values, deletes it. */
  replace(name: string, attribute: string, values: readonly string[]): Promise<void>
  /** Gives an entry another first part of its DN. */
  rename(name: string, part: string): Promise<void>
  remove(name: string): Promise<void>
  stop(): Promise<void>
}

export async function startSlapd(): Promise<SlapdServer> {
  const program = findProgram('slapd')
  if (program === undefined) throw new Error('slapd is not installed')
  // The package is unpacked, or installed: its other folders are found from that of the program.
  const root = join(dirname(program), '..', '..')
  const libraries = readdirSync(join(root, 'usr/lib')).map((name) => join(root, 'usr/lib', name))
  const home = await mkdtemp(join(tmpdir(), 'tidegate-slapd-'))
  await mkdir(join(home, 'database'))
  const { certificate, key } = await makeCertificate(home)
  const [port = 0, tlsPort = 0] = await freePorts(2)
  const schemas = ['core', 'cosine', 'inetorgperson', 'nis'].map((name) =>
    join(root, 'etc/ldap/schema', `${name}.schema`),
  )
  const config = [
    ...schemas.map((file) => `include ${file}`),
    ...[`modulepath ${join(root, 'usr/lib/ldap')}`, 'moduleload back_mdb', 'moduleload memberof'],
    ...[`pidfile ${join(home, 'pid')}`, `TLSCertificateFile ${certificate}`, `TLSCertificateKeyFile ${key}`],
    // As some directories do by themselves: a bind without a password succeeds, whoever is named (RFC 4513 §5.1.2).
    'allow bind_anon_dn',
    ...['database mdb', `suffix "${suffix}"`, `directory ${join(home, 'database')}`, 'maxsize 16777216'],
    ...[`rootdn "${manager.dn}"`, `rootpw "${manager.password}"`, 'dbnosync', 'overlay memberof'],
    'access to attrs=userPassword by anonymous auth by * none',
    `access to * by dn.exact="${reader.dn}" read by anonymous auth by * none`,
  ]
  await writeFile(join(home, 'slapd.conf'), `${config.join('\n')}\n`)
  const urls = `ldap://127.0.0.1:${port}/ ldaps://127.0.0.1:${tlsPort}/`
  const child = spawn(program, ['-d', '0', '-f', join(home, 'slapd.conf'), '-h', urls], {
    env: { ...process.env, LD_LIBRARY_PATH: libraries.join(':') },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-5000)))
  const exit = once(child, 'exit')
  for (let tries = 0; !((await accepts(port)) && (await accepts(tlsPort))); tries++) {
    if (child.exitCode !== null || tries > 200) throw new Error(`slapd does not answer: ${said}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const client = new Client({ url: `ldap://127.0.0.1:${port}` })
  await client.bind(manager.dn, manager.password)
  const full = (name: string) => (name === '' ? suffix : `${name},${suffix}`)
  const add = (name: string, attributes: Attributes) => client.add(full(name), { ...attributes })
  const server: SlapdServer = {
    port,
    tlsPort,
    certificate,
    add,
    addPerson: (name, userPassword, attributes = {}) =>
      add(`uid=${name},ou=people`, { objectClass: 'inetOrgPerson', cn: name, sn: name, userPassword, ...attributes }),
    addGroup: (name, people) =>
      add(`cn=${name},ou=groups`, {
        objectClass: 'groupOfNames',
        member: people.map((person) => full(`uid=${person},ou=people`)),
      }),
    replace: (name, type, values) => {
      const modification = new Attribute({ type, values: [...values] })
      return client.modify(full(name), new Change({ operation: 'replace', modification }))
    },
    rename: (name, part) => client.modifyDN(full(name), part),
    remove: (name) => client.del(full(name)),
    stop: async () => {
      await client.unbind()
      child.kill('SIGTERM')
      await exit
      await rm(home, { recursive: true, force: true, maxRetries: 5 })
    },
  }
  await add('', { objectClass: ['dcObject', 'organization'], dc: 'example', o: 'Example' })
  await add('ou=people', { objectClass: 'organizationalUnit' })
  await add('ou=groups', { objectClass: 'organizationalUnit' })
  await add('cn=reader', { objectClass: ['organizationalRole', 'simpleSecurityObject'], userPassword: reader.password })
  return server
}
