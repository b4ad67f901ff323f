/** Changes by every protocol are found by a search, under the current names. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { nodesOfTests, startGateway } from '../gateway.js'
import { connectAll } from './protocols.js'

void t.test('every change through each protocol is found', async (t) => {
  const running = await startGateway(t)
  const { gateway, url, adminPassword: password } = running
  const protocols = await connectAll(running, { username: 'admin', password })
  t.teardown(() => Promise.all(protocols.map((protocol) => protocol.close())))
  const post = async (path: string, body: unknown, token = '') => {
    const headers = { 'content-type': 'application/json', authorization: token }
    const response = await fetch(url + path, { method: 'POST', body: JSON.stringify(body), headers })
    return ((await response.json()) as { data: unknown }).data
  }
  const { token } = (await post('/api/auth/login', { username: 'admin', password })) as { token: string }
  await post('/api/admin/setting/save', [{ key: 'search_index', value: 'database' }], token)
  await post('/api/admin/index/build', {}, token)
  const found = async (keywords: string) => {
    await gateway.search.idle()
    // The node that writes the index hears of changes of others shortly after.
    if (nodesOfTests > 1) await wait(1500)
    const ask = { parent: '/', keywords, scope: 0, page: 1, per_page: 10, password: '' }
    const { content } = (await post('/api/fs/search', ask, token)) as { content: { parent: string; name: string }[] }
    return content.map(({ parent, name }) => `${parent === '/' ? '' : parent}/${name}`)
  }

  for (const one of protocols) {
    const folder = `/by ${one.protocol}`
    t.equal(await one.makeFolder(folder), 'done')
    t.equal(await one.put(`${folder}/needle`, Buffer.from('x')), 'done')
    t.same(await found('NEEDLE'), [`${folder}/needle`], one.protocol)
    t.equal(await one.rename(`${folder}/needle`, `${folder}/pin`), 'done')
    t.same(await found('needle'), [])
    t.equal(await one.rename(folder, `${folder} renamed`), 'done')
    t.same(await found('pin'), [`${folder} renamed/pin`])
    t.same(await found(one.protocol), [`${folder} renamed`])
    t.equal(await one.remove(`${folder} renamed/pin`), 'done')
    t.same(await found('pin'), [])
    t.equal(await one.remove(`${folder} renamed`), 'done')
    t.same(await found(one.protocol), [])
  }
})
