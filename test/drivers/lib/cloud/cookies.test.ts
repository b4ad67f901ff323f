/** Cookies as admins paste them, and as servers renew them. */
import t from 'tap'
import { Cookies } from '../../../../drivers/lib/cloud/cookies.js'

await t.test('cookies are parsed as they are pasted', async (t) => {
  const cookies = Cookies.parse(' UID=1_A1; CID=c==;\r\n SEID = s ;nonsense; ;KID=k;')
  t.equal(cookies.header(), 'UID=1_A1; CID=c==; SEID=s; KID=k')
  t.equal(cookies.get('uid'), '1_A1')
  t.equal(cookies.get('none'), undefined)
  t.equal(Cookies.parse('a=1; a=2').header(), 'a=2')
  t.equal(Cookies.parse('').header(), '')
  t.equal(Cookies.parse('Cookie: __pus=a; __puus=b').header(), '__pus=a; __puus=b', 'with the name of the header')
  t.equal(Cookies.parse('a=x\u0000\u00e4y').header(), 'a=xy', 'a header cannot hold it')
})

await t.test('answers replace the cookies that they may, and nothing else', async (t) => {
  const cookies = Cookies.parse('__puus=old; __pus=p; other=1')
  const names = ['__puus']
  const after = cookies.after(['__puus=new; Path=/; HttpOnly', 'other=2', 'third=3'], names)
  t.equal(after?.header(), '__puus=new; __pus=p; other=1')
  t.equal(cookies.header(), '__puus=old; __pus=p; other=1', 'the cookies of a call do not change')
  t.equal(cookies.after(['__puus=old'], names), undefined)
  t.equal(cookies.after(['__puus=; Max-Age=0'], names), undefined, 'a removed credential')
  t.equal(cookies.after(undefined, names), undefined)
})
