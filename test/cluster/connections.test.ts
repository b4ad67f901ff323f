/** How many connections a node has to PostgreSQL. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { startNodes } from '../gateway.js'
import { lacks } from '../programs.js'
import { thisServer } from '../database/engines.js'

const skip = lacks('postgres', 'initdb')

void t.test('a node with few connections serves many changes, and has no more than those', { skip }, async (t) => {
  const server = await thisServer()
  const store = await server.createDatabase()
  const [node] = await startNodes(t, store, 1, { config: { store_connections: 14 } })
  if (!node) throw new Error('no gateway')
  const authorization = `Basic ${Buffer.from(`admin:${node.adminPassword}`).toString('base64')}`
  const ask = (method: string, name: string, headers = {}) =>
    fetch(`${node.davUrl}${name}`, {
      method,
      headers: { authorization, ...headers },
      ...(method === 'PUT' && { body: 'x' }),
    })
  const counting = `select count(*) as n from pg_stat_activity where application_name = '${node.gateway.cluster.instance.name}'`
  let [most, isDone] = [0, false]
  const count = async () => {
    while (!isDone) {
      const [{ n } = { n: 0 }] = await server.query(counting, store)
      most = Math.max(most, Number(n))
      await wait(5)
    }
  }
  const counted = count()
  const statuses = await Promise.all(
    Array.from({ length: 120 }, async (_, index) => {
      // A time of the client is stored in the database.
      const put = await ask('PUT', `file-${index}`, { 'x-oc-mtime': '1700000000' })
      const moved = await ask('MOVE', `file-${index}`, { destination: `${node.davUrl}moved-${index}` })
      return [put.status, moved.status]
    }),
  )
  isDone = true
  await counted
  t.same([...new Set(statuses.map(String))], ['201,201'])
  t.ok(most > 5 && most <= 14, `${most} connections`)
})
