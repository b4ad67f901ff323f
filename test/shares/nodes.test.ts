/** Shares on two nodes: one count of visits, and one state. */
import t from 'tap'
import { startNodes } from '../gateway.js'
import { lacks } from '../programs.js'
import { thisServer } from '../database/engines.js'
import { until } from '../until.js'
import { ended, Visitor } from './visitor.js'

const skip = lacks('postgres', 'initdb')

void t.test('visits are counted exactly, and a change ends visits on all nodes', { skip }, async (t) => {
  const store = await (await thisServer()).createDatabase()
  const [one, two] = await startNodes(t, store, 2)
  if (!one || !two) throw new Error('no gateway')
  const login = { username: 'admin', password: one.adminPassword }
  const post = async (path: string, body: object, authorization = '') => {
    const headers = { 'content-type': 'application/json', authorization }
    const response = await fetch(one.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await response.json()) as { code: number; data: { token: string; id: string } }
  }
  const { token } = (await post('/api/auth/login', login)).data
  t.match(await post('/api/fs/mkdir', { path: '/docs' }, token), { code: 200 })
  const { id } = (await post('/api/share/create', { files: ['/docs'], max_accessed: 5 }, token)).data
  t.ok(await until(() => two.gateway.shares.get(id) !== undefined), 'the other node knows the share')
  const visitors = Array.from(
    { length: 20 },
    (_, number) => new Visitor(number % 2 === 0 ? one : two, { agent: `browser ${number}` }),
  )
  const answers = await Promise.all(visitors.map((visitor) => visitor.list(`/@s/${id}`)))
  t.equal(answers.filter(({ code }) => code === 200).length, 5)
  const visitor = visitors[answers.findIndex(({ code }, index) => code === 200 && index % 2 === 1)]
  if (!visitor) throw new Error('nobody has visited the other node')
  t.match(await visitor.list(`/@s/${id}`), { code: 200 })
  t.match(await post(`/api/share/disable?id=${id}`, {}, token), { code: 200 })
  t.ok(await until(() => two.gateway.shares.get(id)?.disabled === true), 'the other node knows that too')
  t.match(await visitor.list(`/@s/${id}`), ended)
})
