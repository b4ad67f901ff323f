/** How to reach the files from each system. */
import type { Translation } from '../texts.ts'

export default {
  mount: {
    title: '将文件挂载为网络驱动器',
    more: '其他程序的用法请参见文档',
    system: '您的系统',
    webdav: {
      windows: '在文件资源管理器中选择“此电脑”，再选择“映射网络驱动器”，然后输入此地址。',
      macos: '在“访达”中选择“前往”，再选择“连接服务器”，然后输入此地址。',
      linux: '在文件管理器中选择“其他位置”，然后在“连接到服务器”中输入此地址。',
    },
    terminal: '或在终端中运行：',
    davfs: '或在终端中使用 davfs2 软件包。先运行一次以下命令，否则在 Linux 6.16 及更新版本上 davfs2 无法列出文件夹：',
    thenMount: '然后挂载：',
    unmount: '文件关闭几秒后 davfs2 才会上传。关机前请先卸载，以确保所有文件都已上传：',
    credentials: (user) => `用户名为 ${user}，密码为您的登录密码。启用两步验证后，请使用个人设置中的应用密码。`,
    windowsNeedsTls: 'Windows 只能通过 HTTPS 挂载 WebDAV。请将服务器置于支持 TLS 的反向代理之后，或改用 SFTP。',
    sftp: '在终端中运行此命令，然后输入您的密码；启用两步验证后，请输入应用密码。如果在个人设置中添加了 SSH 密钥，则无需密码。',
    sftpOff: '此服务器未开启 SFTP。',
    hostKeys: '首次连接时，请确认服务器的指纹是以下之一：',
  },
} satisfies Translation<'mount'>
