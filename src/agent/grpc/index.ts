/** Entry point of the agent's gRPC: clients, and servers for programs on the same machine. */
export {
  type BytesStream,
  type Connected,
  type ConnectLimits,
  type GrpcClient,
  type GrpcClientOptions,
  type GrpcTarget,
  type GrpcTls,
  openGrpcClient,
  type UnaryCall,
} from './client.ts';
export {
  endWithError,
  type GrpcServer,
  type GrpcServerLimits,
  type GrpcServerOptions,
  type ServedMethod,
  type ServerStream,
  startGrpcServer,
} from './server.ts';
