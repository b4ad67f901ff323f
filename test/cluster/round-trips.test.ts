/** How many messages a request sends to PostgreSQL. */
import { mkdtemp, readFile, rm, chmod } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { startNodes } from '../gateway.js'
import { lacks } from '../programs.js'
import { startPostgres } from '../servers/postgres.js'

const skip = lacks('postgres', 'initdb')

void t.test('a PUT sends two messages, one to take its locks and one to release them', { skip }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-statements-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  // The server may run as another user.
  await chmod(folder, 0o777)
  const logging = ['log_statement=all', 'logging_collector=on', `log_directory=${folder}`, 'log_filename=log']
  const server = await startPostgres([...logging, 'log_file_mode=0644', 'log_line_prefix=%a '])
  t.teardown(() => server.stop())
  const store = await server.createDatabase()
  const [node] = await startNodes(t, store, 1)
  if (!node) throw new Error('no gateway')
  const authorization = `Basic ${Buffer.from(`admin:${node.adminPassword}`).toString('base64')}`
  const put = (name: string) => fetch(`${node.davUrl}${name}`, { method: 'PUT', body: 'x', headers: { authorization } })
  // The audit stores its events in groups, after their requests.
  await node.gateway.settings.set(new Map([['audit_enabled', 'false']]))
  // The first requests read what is kept in memory from then on.
  for (const name of ['first', 'second']) await put(name)

  /** The statements that the node sends during the work, without its heartbeats. */
  const statementsOf = async (work: () => Promise<unknown>): Promise<readonly string[]> => {
    const mark = `mark ${Math.random()}`
    await server.query(`select '${mark}'`, store)
    await work()
    await server.query(`select 'end of ${mark}'`, store)
    for (;;) {
      const log = await readFile(join(folder, 'log'), 'utf8')
      const [, after] = log.split(`select '${mark}'`)
      const [during, end] = after?.split(`select 'end of ${mark}'`) ?? []
      if (end !== undefined && during !== undefined) {
        const lines = during.split('\n').filter((line) => line.startsWith(node.gateway.cluster.instance.name))
        return lines.filter((line) => /LOG: {2}(statement|execute)/.test(line) && !/"(nodes|leases)"/.test(line))
      }
      await wait(20)
    }
  }
  for (const name of ['new', 'new', 'second']) {
    const statements = await statementsOf(async () => t.ok((await put(name)).ok))
    t.equal(statements.length, 2, statements.join('\n'))
    t.match(statements, [
      / begin isolation level read committed; select pg_advisory_xact_lock/,
      / select pg_notify\(.*"written".*commit$/,
    ])
  }
  const got = await statementsOf(() => fetch(`${node.davUrl}new`, { headers: { authorization } }))
  t.same(got, [], 'a GET sends none')
})
