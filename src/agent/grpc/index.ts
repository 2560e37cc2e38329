/** Entry point of the agent's gRPC clients. */
export {
  type BytesStream,
  type GrpcClient,
  type GrpcClientOptions,
  type GrpcTarget,
  type GrpcTls,
  openGrpcClient,
  type UnaryCall,
} from './client.ts';
