/** The example of docs/scaling.md: HAProxy before three nodes, with PostgreSQL and a storage on S3. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { prepareNodes, startDaemon, type Daemon } from '../gateway.js'
import { findProgram, lacks } from '../programs.js'
import { freePorts } from '../servers/free-port.js'
import { remotes } from '../servers/remotes.js'
import { swiftPrograms } from '../servers/swift.js'
import { connectAll } from '../stories/protocols.js'
import { thisServer } from '../database/engines.js'

const skip = lacks('haproxy', 'postgres', 'initdb', ...swiftPrograms)
const password = 'a password for tests'

/** The code blocks of the page in this language. */
async function blocks(language: string): Promise<readonly string[]> {
  const page = await readFile('docs/scaling.md', 'utf8')
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, block = '']) => block)
}

void t.test('clients of all protocols work through the balancer while a node is killed', { skip }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-example-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  const [configuration = ''] = await blocks('json')
  const config = join(folder, 'tidegate.json')
  await writeFile(config, configuration.replace('10.0.0.2', '127.0.0.1').replace('https://files.example.org', ''))

  const store = await (await thisServer()).createDatabase()
  const folders = await prepareNodes(t, store, 3, folder, password)
  const environment = { TIDEGATE_STORE: store, TIDEGATE_CONFIG: config }
  const start = (dataFolder: string) => startDaemon(t, { dataFolder, adminPassword: password, environment })
  const nodes = await Promise.all(folders.map(start))

  const [http = 0, sftp = 0] = await freePorts(2)
  const [haproxy = ''] = await blocks('haproxy')
  const portOf = (node: Daemon | undefined) => Number(new URL(node?.url ?? '').port)
  const addressed = ['11', '12', '13'].reduce(
    (text, host, index) =>
      text
        .replaceAll(`10.0.0.${host}:5244`, `127.0.0.1:${portOf(nodes[index])}`)
        .replaceAll(new RegExp(`10\\.0\\.0\\.${host}:5222(.*) port 5244`, 'g'), (_line, options: string) => {
          return `127.0.0.1:${nodes[index]?.sftpPort}${options} port ${portOf(nodes[index])}`
        }),
    haproxy,
  )
  const file = join(folder, 'haproxy.cfg')
  const listening = addressed
    .replace(/bind :443 .*/, `bind 127.0.0.1:${http}`)
    .replace('bind :22', `bind 127.0.0.1:${sftp}`)
  await writeFile(file, listening)
  const balancer = spawn(findProgram('haproxy') ?? '', ['-db', '-q', '-f', file], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  t.teardown(async () => {
    balancer.kill('SIGKILL')
    await once(balancer, 'exit')
  })

  const url = `http://127.0.0.1:${http}`
  while (
    !(await fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    ))
  )
    await wait(50)
  const where = { url, davUrl: `${url}/dav/`, sftpPort: sftp }
  const who = { username: 'admin', password }

  const remote = remotes.find(({ name }) => name === 'S3')
  const server = await remote?.start()
  t.teardown(() => server?.stop())
  const [ask] = (await server?.storages('/s3')) ?? []
  const signedIn = await fetch(`${url}/api/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(who),
  })
  const { data } = (await signedIn.json()) as { data: { token: string } }
  const created = await fetch(`${url}/api/admin/storage/create`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: data.token },
    body: JSON.stringify({
      mount_path: '/s3',
      driver: 'S3',
      webdav_policy: 'native_proxy',
      addition: JSON.stringify(ask?.addition),
    }),
  })
  t.match(await created.json(), { code: 200 })
  // Other nodes start the storage when they are told of it.
  await wait(1000)

  const write = async (round: string) => {
    for (const client of await connectAll(where, who)) {
      const text = `${client.protocol} ${round}`
      t.equal(await client.put(`/s3/${client.protocol}-${round}`, Buffer.from(text)), 'done', text)
      await client.close()
    }
  }
  const read = async (rounds: readonly string[]) => {
    for (const client of await connectAll(where, who)) {
      for (const name of ['http', 'webdav', 'sftp']) {
        for (const round of rounds) t.equal(String(await client.get(`/s3/${name}-${round}`)), `${name} ${round}`)
      }
      await client.close()
    }
  }
  await write('before')
  await read(['before'])
  await nodes[0]?.kill()
  // The balancer notices within two checks.
  await wait(2500)
  await write('after')
  await read(['before', 'after'])
  t.equal(await nodes[1]?.stop(), 0)
  await wait(2500)
  await read(['before', 'after'])
  t.equal(await nodes[2]?.stop(), 0)
})
