/** Admins list locks and break them by the API; other users cannot. */
import t from 'tap'
import { asPath } from '../../../../src/base/path.js'
import { principal } from '../../../accounts/principals.js'
import { serve } from '../served.js'

void t.test('an admin lists the locks and breaks one, after which the file can be changed', async (t) => {
  const served = await serve(t)
  const ada = await served.as('ada', ['write'])
  await served.put('/a.txt', 'old')
  const wish = { scope: 'exclusive', deep: false, owner: '<D:owner>ada</D:owner>', seconds: 60 } as const
  const holder = principal({ userId: 77, username: 'somebody' })
  const { token } = await served.gateway.locks.grant(asPath('/a.txt'), wish, holder)
  t.match(await served.put('/a.txt', 'new'), { code: 423, message: /somebody/ })
  const { data } = await served.get('/api/admin/lock/list')
  t.match(data, { total: 1, content: [{ token, path: '/a.txt', scope: 'exclusive', username: 'somebody' }] })
  t.equal((await ada.get('/api/admin/lock/list')).code, 403)
  const breaking = `/api/admin/lock/break?token=${encodeURIComponent(token)}`
  t.equal((await ada.post(breaking)).code, 403)
  t.match(await served.post(breaking), { code: 200, data: null })
  t.match(await served.post(breaking), { code: 404, message: 'lock not found' })
  t.match(await served.post('/api/admin/lock/break'), { code: 400 })
  t.match(await served.get('/api/admin/lock/list'), { data: { total: 0, content: [] } })
  t.equal((await served.put('/a.txt', 'new')).code, 200)
})
