/** The import from other programs. */
import type { Translation } from '../texts.ts'

export default {
  import: {
    title: '从 OpenList、AList 或 File Browser 迁移',
    program: '程序',
    programs: {
      openlist: 'OpenList',
      alist: 'AList',
      filebrowser: 'File Browser',
      quantum: 'File Browser Quantum',
    },
    hints: {
      alist:
        '请先停止该程序，再选择其数据文件夹中的 config.json 和 data.db；如果有 data.db-wal，以及 ssh 文件夹中的 ssh_host_rsa_key，也请一并选择，以便 SFTP 客户端继续识别此服务器。',
      filebrowser:
        '请先停止 File Browser，用“filebrowser users export users.json”和“filebrowser config export config.json”生成 users.json 和 config.json 并选择两者；如果要导入分享，还需选择 shares.json（参见文档“Moving”）。',
      quantum:
        '请先停止 File Browser Quantum（需为第 2 版），再选择其数据库；如果旁边有名称以 -wal 结尾的文件，也请一并选择。',
    },
    files: '文件（再次选择可继续添加）',
    chosen: (names) => `已选择：${names}`,
    root: '文件在此服务器上所在的文件夹（与 File Browser 原来的不同时填写）',
    openSources: '未配置 denyByDefault 的来源（source）的文件夹，每行一个',
    dryRun: '预览导入结果',
    report: '导入明细',
    columns: { kind: '类型', name: '名称', outcome: '结果', reason: '原因' },
    kinds: {
      configuration: '配置',
      grant: '授权',
      group: '用户组',
      'hidden names': '隐藏的名称',
      passkey: '通行密钥',
      passkeys: '通行密钥',
      'folder rule': '规则',
      setting: '设置',
      settings: '设置',
      'SFTP host key': 'SFTP 主机密钥',
      share: '分享',
      'sign-in': '登录方式',
      'SSH key': 'SSH 密钥',
      sso_id: '单点登录账号',
      storage: '存储',
      tokens: '令牌',
      user: '用户',
    },
    outcomes: { taken: '导入', changed: '调整后导入', 'left out': '不导入' },
    counts: (taken, changed, leftOut) => `导入 ${taken} 项，调整后导入 ${changed} 项，不导入 ${leftOut} 项`,
    warning: '导入会替换此服务器首次启动时创建的账号和存储。之后请使用原程序的管理员账号登录，密码不变。',
    run: '导入',
    done: '数据已导入。请使用原程序的管理员账号登录，密码不变。',
    signIn: '重新登录',
    notNew: '此服务器已有自己的用户、存储或规则，请导入到新安装的服务器。',
  },
} satisfies Translation<'import'>
