/** The viewer of pictures. */
import { number } from '../format.ts'
import type { Translation } from '../texts.ts'

/** `北纬 48.85837°`. */
const degrees = (value: number, positive: string, negative: string) =>
  `${value < 0 ? negative : positive} ${Math.abs(value).toFixed(5)}°`

export default {
  pictures: {
    tools: '图片工具',
    smaller: '缩小',
    larger: '放大',
    fit: '适应窗口',
    turnLeft: '向左旋转',
    turnRight: '向右旋转',
    play: '播放幻灯片',
    pause: '暂停幻灯片',
    interval: '每张图片的停留时间',
    seconds: (count) => `${number(count)} 秒`,
    fullScreen: '全屏',
    leaveFullScreen: '退出全屏',
    position: (at, total) => `第 ${number(at)} 张，共 ${number(total)} 张`,
    arriving: '正在加载原图…',
    details: '详细信息',
    dimensions: '尺寸',
    pixels: (width, height) => `${number(width)} × ${number(height)} 像素`,
    taken: '拍摄时间',
    camera: '相机',
    lens: '镜头',
    exposure: '拍摄参数',
    exposureTime: (seconds) => `${seconds} 秒`,
    aperture: (value) => `光圈 f/${number(value)}`,
    sensitivity: (value) => `感光度 ${value}`,
    focalLength: (millimeters) => `焦距 ${number(millimeters)} 毫米`,
    place: '拍摄地点',
    coordinates: (latitude, longitude) => `${degrees(latitude, '北纬', '南纬')}，${degrees(longitude, '东经', '西经')}`,
  },
} satisfies Translation<'pictures'>
