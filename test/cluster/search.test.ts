/** One of several nodes writes the search index; all of them search, and pass on what an admin asks for. */
import t from 'tap'
import { startNodes, type RunningGateway } from '../gateway.js'
import { lacks } from '../programs.js'
import { thisServer } from '../database/engines.js'
import { until } from '../until.js'

async function found({ gateway, url }: RunningGateway, keywords: string): Promise<readonly string[]> {
  const response = await fetch(`${url}/api/fs/search`, {
    method: 'POST',
    headers: { authorization: gateway.settings.get('token'), 'content-type': 'application/json' },
    body: JSON.stringify({ parent: '/', keywords, scope: 0, page: 1, per_page: 100, password: '' }),
  })
  const { data } = (await response.json()) as { data: { content: readonly { name: string }[] } | null }
  return data?.content.map(({ name }) => name) ?? []
}

void t.test('the index follows the changes of all nodes', { skip: lacks('postgres', 'initdb') }, async (t) => {
  const nodes = await startNodes(t, await (await thisServer()).createDatabase(), 2)
  const [one, two] = nodes as readonly [RunningGateway, RunningGateway]
  await one.gateway.settings.set(new Map([['search_index', 'database']]))
  await until(() => two.gateway.search.isOn)
  const put = (node: RunningGateway, name: string) =>
    fetch(`${node.davUrl}${name}`, {
      method: 'PUT',
      body: 'x',
      headers: { authorization: `Basic ${Buffer.from(`admin:${node.adminPassword}`).toString('base64')}` },
    })
  await put(one, 'before')
  // The second node does not write the index: the first one does what it asks for.
  await two.gateway.search.build()
  await until(() => two.gateway.search.progress().isDone && two.gateway.search.progress().objCount > 0)
  t.same(await found(two, 'before'), ['before'])
  await put(two, 'later')
  await until(async () => (await found(one, 'later')).length > 0)
  t.same(await found(two, 'later'), ['later'])

  // The node that writes it stops: another one goes on, and finds what was changed meanwhile.
  await one.stop()
  await put(two, 'meanwhile')
  await until(async () => (await found(two, 'meanwhile')).length > 0)
  await put(two, 'afterwards')
  await until(async () => (await found(two, 'afterwards')).length > 0)
  t.same(await found(two, 'before'), ['before'])
})
