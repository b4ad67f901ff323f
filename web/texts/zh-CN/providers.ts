/** The settings of single sign-on and LDAP: what each is, and what a trial has found. */
import { number } from '../format.ts'
import type { Translation } from '../texts.ts'

export default {
  signInSettings: {
    aboutSso: '用户可以使用 Keycloak、Authentik、GitHub 等身份提供商的账号登录，无需本站密码。',
    aboutLdap: '用户可以使用目录服务中的密码登录，例如 OpenLDAP 和 Active Directory。',
    manual: '查看设置方法',
    platforms: {
      OIDC: 'OpenID Connect（Keycloak、Authentik、Authelia 等）',
      Github: 'GitHub',
      Google: 'Google',
      Microsoft: 'Microsoft Entra ID',
      Casdoor: 'Casdoor',
    },
    callback: '回调地址',
    callbackHelp: '请在身份提供商处登记此地址，那里通常称为回调 URL 或重定向 URI。',
    parts: {
      connection: '连接',
      people: '用户',
      accounts: '新账号',
      groups: '用户组',
      page: '登录与退出',
      other: '其他',
    },
    secretStored: '留空则保持不变',
    /** The addresses that some providers have in place of an issuer. */
    endpoints: {
      Github: {
        label: 'GitHub Enterprise Server 地址',
        help: '仅在您自行部署时填写，例如 https://github.example.org。留空则使用 github.com。',
      },
      Microsoft: { label: '租户', help: '目录（租户）ID，可在 Microsoft Entra ID 的概述页面查看。不能填写“common”。' },
      Casdoor: { label: 'Casdoor 地址', help: '您在浏览器中打开的地址，例如 https://door.example.org。' },
    },
    personName: '要查找的用户名',
    personHelp: '仅用于测试：目录服务中某位用户的用户名。留空则查找任意用户。',
    test: '测试',
    testing: '正在测试……',
    person: (name, groups) =>
      groups === 0 ? `已找到 ${name}，不属于任何用户组。` : `已找到 ${name}，属于 ${number(groups)} 个用户组：`,
    outcomes: {
      works: '可以使用。',
      unconfirmed: '身份提供商有响应，但没有说明客户端 ID 和密钥是否正确。',
      incomplete: '有设置未填写，或无法使用。',
      network_refused: '此地址所在的网络不允许服务器访问。请将它添加到“传输”设置中的“用户可通过服务器访问的网络”。',
      certificate: '服务器的证书无效。请检查主机名。如果是自建的证书颁发机构，需要让本机信任它。',
      silent: '没有及时响应。请检查地址，以及中间是否有防火墙。',
      unreachable: '无法连接服务器。请检查地址和端口，以及服务器是否正在运行。',
      account_refused: '对方拒绝了这些凭据。请检查 ID 或 DN，以及密钥或密码。',
      base_missing: '搜索起点不存在，或用于搜索的账号无权查看。',
      nobody_found: '对方有响应，但没有找到用户。请检查搜索起点和过滤条件。',
      other_answer: '有响应，但内容不符合预期。请检查地址是否正确。',
    },
    saidWith: (text, reason) => `${text}详细信息：${reason}`,
  },
} satisfies Translation<'providers'>
